"""Queries: from the API's JSON to the engine's requests."""

from __future__ import annotations

from typing import Any

import qdrant_edge as edge

from cluster.engines.qdrant_server.fields import NUMBER, Fields, as_list
from cluster.engines.qdrant_server.filters import read_filter
from cluster.engines.qdrant_server.problems import BadRequest, Unsupported
from cluster.engines.qdrant_server.vectors import read_selector, read_vector, read_vector_selector

_DEFAULT_LIMIT = 10
_DEFAULT_RRF_K = 2  # Qdrant's own default
_DIRECTIONS = {"asc": edge.Direction.Asc, "desc": edge.Direction.Desc}
_DEPTH = 8


def read_query(value: Any) -> Any:
    """Read a query request; prefetches nest."""
    with Fields(value, "query request") as fields:
        return edge.QueryRequest(
            limit=fields.count("limit", _DEFAULT_LIMIT, low=1),
            offset=fields.count("offset", 0),
            with_payload=read_selector(fields.take("with_payload"), "with_payload"),
            with_vector=read_vector_selector(fields.take("with_vector"), "with_vector"),
            prefetches=_prefetches(fields.take("prefetch"), 0),
            **_scoring(fields),
        )


def _prefetches(value: Any, depth: int) -> list[Any]:
    if depth > _DEPTH:
        raise BadRequest(f"prefetch is nested more than {_DEPTH} deep")
    prefetches = []
    for item in as_list(value):
        with Fields(item, "prefetch") as fields:
            prefetches.append(
                edge.Prefetch(
                    limit=fields.count("limit", _DEFAULT_LIMIT, low=1),
                    prefetches=_prefetches(fields.take("prefetch"), depth + 1),
                    **_scoring(fields),
                )
            )
    return prefetches


def _scoring(fields: Fields) -> dict[str, Any]:
    """Read what a request and a prefetch have in common."""
    return {
        "query": _scored_by(fields.take("query"), fields.take("using", str)),
        "filter": read_filter(fields.take("filter")),
        "params": _params(fields.take("params")),
        "score_threshold": fields.take("score_threshold", NUMBER),
    }


def _scored_by(query: Any, using: str | None) -> Any:
    if query is None:
        return None
    if isinstance(query, list):
        return edge.Query.Nearest(read_vector(query, "query"), using=using)
    if not isinstance(query, dict):
        raise Unsupported("not supported here: a query by point id")
    if "indices" in query:
        return edge.Query.Nearest(read_vector(query, "query"), using=using)
    with Fields(query, "query") as fields:
        if "nearest" in fields:
            return _nearest(fields, using)
        if "rrf" in fields:
            return _rrf(fields.take("rrf"))
        if "fusion" in fields:
            return _fusion(fields.take("fusion", str))
        if "order_by" in fields:
            return read_order(fields.take("order_by"))
        if fields.take("sample") == "random":
            return edge.Sample.Random
        raise Unsupported(f"not supported here: a query by {', '.join(sorted(query))[:60]}")


def _nearest(fields: Fields, using: str | None) -> Any:
    nearest = fields.take("nearest")
    if not isinstance(nearest, list | dict):
        raise Unsupported("not supported here: a query by point id")
    vector = read_vector(nearest, "query.nearest")
    mmr = fields.take("mmr")
    if mmr is None:
        return edge.Query.Nearest(vector, using=using)
    with Fields(mmr, "query.mmr") as options:
        return edge.Mmr(
            vector,
            1.0 - options.take("diversity", NUMBER, 0.5),
            options.count("candidates_limit", 100, low=1),
            using=using,
        )


def _rrf(value: Any) -> Any:
    with Fields(value, "query.rrf") as fields:
        weights = fields.take("weights", list)
        if weights is not None and not all(type(weight) in NUMBER and weight >= 0 for weight in weights):
            raise BadRequest("query.rrf.weights must be numbers of at least 0")
        return edge.Fusion.Rrf(k=fields.count("k", _DEFAULT_RRF_K, low=1), weights=weights)


def _fusion(name: str) -> Any:
    if name == "rrf":
        return edge.Fusion.Rrf(k=_DEFAULT_RRF_K)
    if name == "dbsf":
        return edge.Fusion.Dbsf()
    raise Unsupported(f"not supported here: fusion {name[:60]}")


def read_order(value: Any) -> Any:
    """Read order_by: a field's name, or its name with direction and start."""
    if isinstance(value, str):
        return edge.OrderBy(value)
    with Fields(value, "order_by") as fields:
        direction = fields.take("direction", str, "asc")
        if direction not in _DIRECTIONS:
            raise BadRequest("order_by.direction must be asc or desc")
        return edge.OrderBy(
            fields.need("key", str), _DIRECTIONS[direction], fields.take("start_from", (*NUMBER, str))
        )


def _params(value: Any) -> Any:
    if value is None:
        return None
    with Fields(value, "params") as fields:
        return edge.SearchParams(
            hnsw_ef=fields.count("hnsw_ef", low=1),
            exact=fields.take("exact", bool, False),
            indexed_only=fields.take("indexed_only", bool, False),
            quantization=_quantization(fields.take("quantization")),
            acorn=_acorn(fields.take("acorn")),
            idf=_idf(fields.take("idf")),
        )


def _quantization(value: Any) -> Any:
    if value is None:
        return None
    with Fields(value, "params.quantization") as fields:
        return edge.QuantizationSearchParams(
            ignore=fields.take("ignore", bool, False),
            rescore=fields.take("rescore", bool),
            oversampling=fields.take("oversampling", NUMBER),
        )


def _acorn(value: Any) -> Any:
    if value is None:
        return None
    with Fields(value, "params.acorn") as fields:
        return edge.AcornSearchParams(
            enable=fields.take("enable", bool, False), max_selectivity=fields.take("max_selectivity", NUMBER)
        )


def _idf(value: Any) -> Any:
    if value is None or value == "global":
        return None
    with Fields(value, "params.idf") as fields:
        return edge.IdfParams(corpus=read_filter(fields.take("corpus"), "params.idf.corpus"))
