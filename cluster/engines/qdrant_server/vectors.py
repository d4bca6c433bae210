"""Points and vectors: from the API's JSON to the engine's values and back."""

from __future__ import annotations

import math
import uuid
from typing import Any

import qdrant_edge as edge

from cluster.engines.qdrant_server.fields import NUMBER, Fields
from cluster.engines.qdrant_server.problems import BadRequest, Unsupported


def point_id(value: Any) -> int | str:
    """Check a point id: a whole number or a UUID."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64:
        return value
    if isinstance(value, str):
        try:
            return str(uuid.UUID(value))
        except ValueError:
            pass
    raise BadRequest(f"{str(value)[:60]!r} is not a point id: use a whole number or a UUID")


def read_point(value: Any) -> Any:
    """Read one point of an upsert."""
    with Fields(value, "point") as fields:
        return edge.Point(
            id=point_id(fields.need("id")),
            vector=read_vectors(fields.need("vector")),
            payload=fields.take("payload", dict, {}),
        )


def read_vectors(value: Any) -> Any:
    """Read what a point carries: one unnamed vector, or vectors by name."""
    if isinstance(value, dict) and not value.keys() >= {"indices", "values"}:
        return {name: read_vector(vector, name) for name, vector in value.items()}
    return read_vector(value, "vector")


def read_vector(value: Any, where: str) -> Any:
    """Read one vector: dense, sparse or multi (rows). Anything else would need a model that is not here."""
    if isinstance(value, dict):
        with Fields(value, where) as fields:
            if "indices" not in fields:
                raise Unsupported(f"not supported here: {where} given as {', '.join(sorted(value))[:60]}")
            return _sparse(fields)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return [_numbers(row, where) for row in value]
    return _numbers(value, where)


def _sparse(fields: Fields) -> Any:
    indices = fields.need("indices", list)
    values = _numbers(fields.need("values", list), fields.where)
    if len(indices) != len(values) or len(set(indices)) != len(indices):
        raise BadRequest(f"{fields.where}: indices must be distinct, with one value each")
    if not all(type(index) is int and 0 <= index < 2**32 for index in indices):
        raise BadRequest(f"{fields.where}: indices must be whole numbers of 32 bits")
    return edge.SparseVector(indices=indices, values=values)


def _numbers(value: Any, where: str) -> list[float]:
    if not isinstance(value, list) or not all(type(number) in NUMBER for number in value):
        raise BadRequest(f"{where} must be a list of numbers")
    if not all(map(math.isfinite, value)):
        raise BadRequest(f"{where} holds a number that is not finite")
    return value


def read_selector(value: Any, where: str, default: Any = False) -> Any:
    """Read with_payload: all, none, these keys, or all but these."""
    if value is None:
        return default
    if isinstance(value, dict):
        with Fields(value, where) as fields:
            if "include" in fields:
                return edge.PayloadSelector.Include(fields.take("include", list))
            return edge.PayloadSelector.Exclude(fields.need("exclude", list))
    if isinstance(value, bool | list):
        return value
    raise BadRequest(f"{where} must be true, false, a list of keys, include or exclude")


def read_vector_selector(value: Any, where: str) -> Any:
    """Read with_vector: all, none, or these names."""
    if value is None or isinstance(value, bool | list):
        return value or False
    raise BadRequest(f"{where} must be true, false or a list of names")


def write_vector(value: Any) -> Any:
    """State a point's vectors as JSON."""
    if isinstance(value, dict):
        return {name: write_vector(vector) for name, vector in value.items()}
    if isinstance(value, edge.SparseVector):
        return {"indices": list(value.indices), "values": list(value.values)}
    return value


def write_id(value: Any) -> int | str:
    """State a point's id as JSON."""
    return value if isinstance(value, int) else str(value)


def write_point(point: Any) -> dict[str, Any]:
    """State a scored point or a record as JSON."""
    out: dict[str, Any] = {"id": write_id(point.id)}
    if isinstance(point, edge.ScoredPoint):
        out |= {"version": point.version, "score": point.score}
    # Each reading of a field makes its value anew.
    if (payload := point.payload) is not None:
        out["payload"] = payload
    if (vector := point.vector) is not None:
        out["vector"] = write_vector(vector)
    if point.order_value is not None:
        out["order_value"] = point.order_value
    return out
