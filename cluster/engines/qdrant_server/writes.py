"""Writes: from the API's JSON to the engine's operations, with how many points each touches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import qdrant_edge as edge

from cluster.engines.qdrant_server.collection import Collection
from cluster.engines.qdrant_server.fields import Fields
from cluster.engines.qdrant_server.filters import is_empty_filter, read_filter
from cluster.engines.qdrant_server.problems import BadRequest, Unsupported
from cluster.engines.qdrant_server.vectors import point_id, read_point, read_vectors

Operation = edge.UpdateOperation
DONE = {"operation_id": 0, "status": "completed"}
_MODES = {
    "upsert": edge.UpdateMode.Upsert,
    "insert_only": edge.UpdateMode.InsertOnly,
    "update_only": edge.UpdateMode.UpdateOnly,
}


def read_writes(kind: str, body: Any) -> tuple[list[Any], int]:
    """Read one write request into operations and the number of points it names."""
    with Fields(body, kind) as fields:
        return _READERS[kind](fields)


def write_batch(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """Apply a batch of write requests in order; all are read before the first is applied."""
    with Fields(body, "body") as fields:
        reads = [_read_named(item) for item in fields.need("operations", list)]
    for operations, n_points in reads:
        collection.write(operations, n_points)
    return [DONE for _ in reads]


def _read_named(item: Any) -> tuple[list[Any], int]:
    if not isinstance(item, dict) or len(item) != 1:
        raise BadRequest("each operation must be an object with one key, its name")
    (name, body), *_ = item.items()
    if name not in _READERS:
        raise Unsupported(f"not supported here: operation {name[:60]}")
    return read_writes(name, body)


def _upsert(fields: Fields) -> tuple[list[Any], int]:
    points = fields.take("points", list)
    if points is None:
        points = _from_columns(fields.need("batch"))
    condition, mode = read_filter(fields.take("update_filter")), fields.take("update_mode", str, "upsert")
    if mode not in _MODES:
        raise Unsupported(f"not supported here: update_mode {mode[:60]}")
    read = [read_point(point) for point in points]
    return [Operation.upsert_points(read, condition, _MODES[mode])], len(read)


def _from_columns(value: Any) -> list[dict[str, Any]]:
    """Turn an upsert by columns (ids, vectors, payloads) into one by points."""
    with Fields(value, "batch") as fields:
        ids, vectors = fields.need("ids", list), fields.need("vectors", (list, dict))
        payloads = fields.take("payloads", list, [None] * len(ids))
    if isinstance(vectors, dict):
        columns = vectors
        vectors = [{name: rows[row] for name, rows in columns.items()} for row in range(len(ids))]
    if not len(ids) == len(vectors) == len(payloads):
        raise BadRequest("batch: ids, vectors and payloads differ in number")
    return [
        {"id": key, "vector": vector, "payload": payload}
        for key, vector, payload in zip(ids, vectors, payloads, strict=True)
    ]


def _select(fields: Fields) -> tuple[list[Any] | None, Any]:
    """Read whom a write is for: ids, or a filter with at least one condition; an empty selector is refused."""
    ids, chosen = fields.take("points", list), fields.take("filter", dict)
    if (ids is None) == (chosen is None) or ids == [] or is_empty_filter(chosen):
        raise BadRequest(f"{fields.where} needs points or a filter, not empty: nothing may select everything")
    return ([point_id(item) for item in ids], None) if ids is not None else (None, read_filter(chosen))


def _delete(fields: Fields) -> tuple[list[Any], int]:
    ids, chosen = _select(fields)
    if ids is not None:
        return [Operation.delete_points(ids)], len(ids)
    return [Operation.delete_points_by_filter(chosen)], 1


def _set_payload(fields: Fields) -> tuple[list[Any], int]:
    payload, key = fields.need("payload", dict), fields.take("key", str)
    ids, chosen = _select(fields)
    if ids is not None:
        return [Operation.set_payload(ids, payload, key)], 0
    return [Operation.set_payload_by_filter(chosen, payload, key)], 0


def _overwrite_payload(fields: Fields) -> tuple[list[Any], int]:
    payload, key = fields.need("payload", dict), fields.take("key", str)
    ids, chosen = _select(fields)
    if ids is not None:
        return [Operation.overwrite_payload(ids, payload, key)], 0
    return [Operation.overwrite_payload_by_filter(chosen, payload, key)], 0


def _delete_payload(fields: Fields) -> tuple[list[Any], int]:
    keys = fields.need("keys", list)
    ids, chosen = _select(fields)
    if ids is not None:
        return [Operation.delete_payload(ids, keys)], 0
    return [Operation.delete_payload_by_filter(chosen, keys)], 0


def _clear_payload(fields: Fields) -> tuple[list[Any], int]:
    ids, chosen = _select(fields)
    if ids is not None:
        return [Operation.clear_payload(ids)], 0
    return [Operation.clear_payload_by_filter(chosen)], 0


def _update_vectors(fields: Fields) -> tuple[list[Any], int]:
    read = []
    for item in fields.need("points", list):
        with Fields(item, "point") as point:
            read.append(edge.PointVectors(point_id(point.need("id")), read_vectors(point.need("vector"))))
    return [Operation.update_vectors(read, read_filter(fields.take("update_filter")))], len(read)


def _delete_vectors(fields: Fields) -> tuple[list[Any], int]:
    names = fields.take("vector", list) or fields.need("vectors", list)
    ids, chosen = _select(fields)
    if ids is not None:
        return [Operation.delete_vectors(ids, names)], len(ids)
    return [Operation.delete_vectors_by_filter(chosen, names)], 1


_READERS: dict[str, Callable[[Fields], tuple[list[Any], int]]] = {
    "upsert": _upsert,
    "delete": _delete,
    "delete_points": _delete,
    "set_payload": _set_payload,
    "overwrite_payload": _overwrite_payload,
    "delete_payload": _delete_payload,
    "clear_payload": _clear_payload,
    "update_vectors": _update_vectors,
    "delete_vectors": _delete_vectors,
}
