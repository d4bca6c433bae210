"""The REST routes: method and path to a function of the store; what is not listed answers 404 or 501."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import qdrant_edge as edge

from cluster.engines.qdrant_server.fields import Fields
from cluster.engines.qdrant_server.filters import read_filter
from cluster.engines.qdrant_server.problems import BadRequest, NotFound, Unsupported
from cluster.engines.qdrant_server.queries import read_order, read_query
from cluster.engines.qdrant_server.schema import read_index
from cluster.engines.qdrant_server.store import Store
from cluster.engines.qdrant_server.vectors import (
    point_id,
    read_selector,
    read_vector_selector,
    write_id,
    write_point,
)
from cluster.engines.qdrant_server.writes import DONE, read_writes, write_batch

Handler = Callable[..., Any]


def answer(store: Store, method: str, path: str, body: Any) -> Any:
    """Answer one request: the value of `result`."""
    for allowed, pattern, handler in _ROUTES:
        match = pattern.fullmatch(path)
        if match and method == allowed:
            return handler(store, *match.groups(), body)
    if re.match(r"/(collections|aliases|cluster|snapshots|telemetry|issues|metrics|locks)\b", path):
        raise Unsupported(f"not supported here: {method} {path[:100]}")
    raise NotFound(f"no such path: {path[:100]}")


# ---------------------------------------------------------------------------------------------------- collections


def _list(store: Store, _body: Any) -> Any:
    return {"collections": [{"name": name} for name in store.names()]}


def _exists(store: Store, name: str, _body: Any) -> Any:
    return {"exists": store.exists(name)}


def _get(store: Store, name: str, _body: Any) -> Any:
    return store.get(name).info()


def _create(store: Store, name: str, body: Any) -> Any:
    store.create(name, body or {})
    return True


def _patch(store: Store, name: str, body: Any) -> Any:
    """Touching optimizers_config wakes the optimizer, as it does in Qdrant; values cannot be changed here."""
    with (
        Fields(body or {}, "collection") as fields,
        Fields(fields.take("optimizers_config") or {}, "optimizers_config"),
    ):
        store.get(name).request_optimize()
    return True


def _delete(store: Store, name: str, _body: Any) -> Any:
    return store.delete(name)


def _aliases(store: Store, *rest: Any) -> Any:
    only = rest[0] if len(rest) == 2 else None
    return {
        "aliases": [
            {"alias_name": alias, "collection_name": name}
            for alias, name in sorted(store.aliases().items())
            if only in (None, name)
        ]
    }


def _change_aliases(store: Store, body: Any) -> Any:
    with Fields(body, "body") as fields:
        store.change_aliases(fields.need("actions", list))
    return True


def _create_index(store: Store, name: str, body: Any) -> Any:
    with Fields(body, "body") as fields:
        field, schema = fields.need("field_name", str), read_index(fields.need("field_schema"))
    store.get(name).write([edge.UpdateOperation.create_field_index(field, schema)], 0)
    return DONE


def _delete_index(store: Store, name: str, field: str, _body: Any) -> Any:
    store.get(name).write([edge.UpdateOperation.delete_field_index(field)], 0)
    return DONE


# ---------------------------------------------------------------------------------------------------------- writes


def _writer(kind: str) -> Handler:
    def write(store: Store, name: str, body: Any) -> Any:
        store.get(name).write(*read_writes(kind, body))
        return DONE

    return write


def _batch(store: Store, name: str, body: Any) -> Any:
    return write_batch(store.get(name), body)


# ----------------------------------------------------------------------------------------------------------- reads


def _retrieve(store: Store, name: str, body: Any) -> Any:
    with Fields(body, "body") as fields, store.get(name).reading() as shard:
        points = shard.retrieve(
            [point_id(item) for item in fields.need("ids", list)],
            with_payload=read_selector(fields.take("with_payload"), "with_payload", default=True),
            with_vector=read_vector_selector(fields.take("with_vector"), "with_vector"),
        )
    return [write_point(point) for point in points]


def _retrieve_one(store: Store, name: str, text: str, _body: Any) -> Any:
    wanted = point_id(int(text) if text.isdecimal() else text)
    with store.get(name).reading() as shard:
        points = shard.retrieve([wanted], with_payload=True, with_vector=True)
    if not points:
        raise NotFound(f"Not found: Point with id {wanted} does not exists!")
    return write_point(points[0])


def _scroll(store: Store, name: str, body: Any) -> Any:
    with Fields(body or {}, "body") as fields, store.get(name).reading() as shard:
        offset, order = fields.take("offset"), fields.take("order_by")
        points, following = shard.scroll(
            edge.ScrollRequest(
                offset=None if offset is None else point_id(offset),
                limit=fields.count("limit", 10, low=1),
                filter=read_filter(fields.take("filter")),
                with_payload=read_selector(fields.take("with_payload"), "with_payload", default=True),
                with_vector=read_vector_selector(fields.take("with_vector"), "with_vector"),
                order_by=None if order is None else read_order(order),
            )
        )
    return {
        "points": [write_point(point) for point in points],
        "next_page_offset": None if following is None else write_id(following),
    }


def _count(store: Store, name: str, body: Any) -> Any:
    with Fields(body or {}, "body") as fields, store.get(name).reading() as shard:
        request = edge.CountRequest(
            exact=fields.take("exact", bool, True), filter=read_filter(fields.take("filter"))
        )
        return {"count": shard.count(request)}


def _facet(store: Store, name: str, body: Any) -> Any:
    with Fields(body, "body") as fields, store.get(name).reading() as shard:
        request = edge.FacetRequest(
            fields.need("key", str),
            limit=fields.count("limit", 10, low=1),
            exact=fields.take("exact", bool, False),
            filter=read_filter(fields.take("filter")),
        )
        return {"hits": [{"value": hit.value, "count": hit.count} for hit in shard.facet(request).hits]}


def _query(store: Store, name: str, body: Any) -> Any:
    request = read_query(body)
    with store.get(name).reading() as shard:
        return {"points": [write_point(point) for point in shard.query(request)]}


def _query_batch(store: Store, name: str, body: Any) -> Any:
    with Fields(body, "body") as fields:
        requests = [read_query(item) for item in fields.need("searches", list)]
    if not requests:
        raise BadRequest("body.searches is empty")
    with store.get(name).reading() as shard:
        batches = shard.query_batch(edge.QueryBatchRequest(requests))
    return [{"points": [write_point(point) for point in points]} for points in batches]


def _route(method: str, path: str, handler: Handler) -> tuple[str, re.Pattern[str], Handler]:
    return method, re.compile(path.replace("{}", "([^/]+)")), handler


_ROUTES = [
    _route("POST", "/collections/{}/points/query", _query),
    _route("POST", "/collections/{}/points/query/batch", _query_batch),
    _route("PUT", "/collections/{}/points", _writer("upsert")),
    _route("POST", "/collections/{}/points/delete", _writer("delete")),
    _route("POST", "/collections/{}/points/payload", _writer("set_payload")),
    _route("PUT", "/collections/{}/points/payload", _writer("overwrite_payload")),
    _route("POST", "/collections/{}/points/payload/delete", _writer("delete_payload")),
    _route("POST", "/collections/{}/points/payload/clear", _writer("clear_payload")),
    _route("PUT", "/collections/{}/points/vectors", _writer("update_vectors")),
    _route("POST", "/collections/{}/points/vectors/delete", _writer("delete_vectors")),
    _route("POST", "/collections/{}/points/batch", _batch),
    _route("POST", "/collections/{}/points/count", _count),
    _route("POST", "/collections/{}/points/scroll", _scroll),
    _route("POST", "/collections/{}/points", _retrieve),
    _route("GET", "/collections/{}/points/{}", _retrieve_one),
    _route("POST", "/collections/{}/facet", _facet),
    _route("GET", "/collections", _list),
    _route("POST", "/collections/aliases", _change_aliases),
    _route("GET", "/aliases", _aliases),
    _route("GET", "/collections/{}/aliases", _aliases),
    _route("GET", "/collections/{}/exists", _exists),
    _route("PUT", "/collections/{}/index", _create_index),
    _route("DELETE", "/collections/{}/index/{}", _delete_index),
    _route("GET", "/collections/{}", _get),
    _route("PUT", "/collections/{}", _create),
    _route("PATCH", "/collections/{}", _patch),
    _route("DELETE", "/collections/{}", _delete),
]
