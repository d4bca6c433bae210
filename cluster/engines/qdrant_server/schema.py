"""Collections' and payload indexes' definitions: from the API's JSON to the engine's and back."""

from __future__ import annotations

from typing import Any

import qdrant_edge as edge

from cluster.engines.qdrant_server.fields import Fields
from cluster.engines.qdrant_server.problems import BadRequest, Unsupported

HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000, "max_indexing_threads": 1}
_DISTANCES = {
    distance.lower(): getattr(edge.Distance, distance)
    for distance in ("Cosine", "Euclid", "Dot", "Manhattan")
}
_DATATYPES = {
    name.lower(): getattr(edge.VectorStorageDatatype, name) for name in ("Float32", "Float16", "Uint8")
}
_TOKENIZERS = {
    name.lower(): getattr(edge.TokenizerType, name)
    for name in ("Prefix", "Whitespace", "Word", "Multilingual")
}

# Per kind of payload index: the engine's class, and the options it takes with their types.
_INDEXES: dict[str, tuple[Any, dict[str, Any]]] = {
    "keyword": (edge.KeywordIndexParams, {"is_tenant": bool, "prefix": bool}),
    "integer": (edge.IntegerIndexParams, {"lookup": bool, "range": bool, "is_principal": bool}),
    "float": (edge.FloatIndexParams, {"is_principal": bool}),
    "bool": (edge.BoolIndexParams, {}),
    "datetime": (edge.DatetimeIndexParams, {"is_principal": bool}),
    "uuid": (edge.UuidIndexParams, {"is_tenant": bool}),
    "geo": (edge.GeoIndexParams, {}),
    "text": (
        edge.TextIndexParams,
        {
            "tokenizer": str,
            "min_token_len": int,
            "max_token_len": int,
            "lowercase": bool,
            "ascii_folding": bool,
            "phrase_matching": bool,
        },
    ),
}
_EVERY_INDEX = {"on_disk": bool, "enable_hnsw": bool}


def read_collection(body: Any, graph: dict[str, Any] | None = None) -> Any:
    """Read a create request into the engine's configuration, with other graph options if given."""
    with Fields(body, "collection") as fields:
        fields.fixed(shard_number=1, replication_factor=1, write_consistency_factor=1, sharding_method="auto")
        vectors = fields.take("vectors", dict, {})
        sparse = fields.take("sparse_vectors", dict, {})
        if not vectors and not sparse:
            raise BadRequest("collection needs vectors or sparse_vectors")
        own_graph = read_hnsw(fields.take("hnsw_config"))
        return edge.EdgeConfig(
            vectors=_vector(vectors, "vectors")
            if "size" in vectors
            else {name: _vector(params, f"vectors.{name}") for name, params in vectors.items()},
            sparse_vectors={
                name: _sparse(params, f"sparse_vectors.{name}") for name, params in sparse.items()
            },
            on_disk_payload=fields.take("on_disk_payload", bool),
            hnsw_config=edge.HnswIndexConfig(**(graph or own_graph)),
        )


def read_hnsw(value: Any) -> dict[str, Any]:
    """Read a collection's graph options over the defaults. Graphs are built once a collection is large enough."""
    with Fields(value or {}, "hnsw_config") as fields:
        given = {name: fields.count(name) for name in (*HNSW, "payload_m")}
    return HNSW | {name: number for name, number in given.items() if number is not None}


def _vector(value: Any, where: str) -> Any:
    with Fields(value, where) as fields:
        multi = fields.take("multivector_config")
        return edge.EdgeVectorParams(
            size=fields.count("size", 0, low=1),
            distance=_choose(_DISTANCES, fields.need("distance", str), f"{where}.distance"),
            on_disk=fields.take("on_disk", bool),
            multivector_config=_multivector(multi, where),
            datatype=_choose(_DATATYPES, fields.take("datatype", str), f"{where}.datatype"),
        )


def _multivector(value: Any, where: str) -> Any:
    if value is None:
        return None
    with Fields(value, f"{where}.multivector_config") as fields:
        fields.fixed(comparator="max_sim")
        return edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)


def _sparse(value: Any, where: str) -> Any:
    with Fields(value or {}, where) as fields:
        modifier = fields.take("modifier", str, "none")
        if modifier not in ("idf", "none"):
            raise Unsupported(f"not supported here: {where}.modifier {modifier[:60]}")
        with Fields(fields.take("index", dict, {}), f"{where}.index") as index:
            return edge.EdgeSparseVectorParams(
                full_scan_threshold=index.count("full_scan_threshold"),
                on_disk=index.take("on_disk", bool),
                datatype=_choose(_DATATYPES, index.take("datatype", str), f"{where}.index.datatype"),
                modifier=edge.Modifier.Idf if modifier == "idf" else None,
            )


def _choose(options: dict[str, Any], name: str | None, where: str) -> Any:
    if name is None:
        return None
    if name.lower() not in options:
        raise Unsupported(f"not supported here: {where} {name[:60]}")
    return options[name.lower()]


def read_index(schema: Any) -> Any:
    """Read a payload index's definition: the name of its kind, or an object with `type` and options."""
    with Fields({"type": schema} if isinstance(schema, str) else schema, "field_schema") as fields:
        kind = fields.need("type", str)
        if kind not in _INDEXES:
            raise Unsupported(f"not supported here: a payload index of type {kind[:60]}")
        build, options = _INDEXES[kind]
        given = {name: fields.take(name, types) for name, types in (options | _EVERY_INDEX).items()}
        if "tokenizer" in given:
            given["tokenizer"] = _choose(_TOKENIZERS, given["tokenizer"], "field_schema.tokenizer")
        return build(**given)


def write_index(info: Any) -> dict[str, Any]:
    """State a payload index as the API's JSON."""
    kind = str(info.data_type).rpartition(".")[2].lower()
    params: dict[str, Any] = {"type": kind}
    for name in _INDEXES[kind][1] | _EVERY_INDEX if info.params is not None else ():
        value = getattr(info.params, name)
        if value is not None:
            params[name] = str(value).rpartition(".")[2].lower() if name == "tokenizer" else value
    return {"data_type": kind, "params": params, "points": info.points}


def write_config(body: dict[str, Any]) -> dict[str, Any]:
    """State a collection's configuration as the API's JSON, from the request that created it."""
    return {
        "params": {
            "vectors": body.get("vectors") or {},
            "sparse_vectors": body.get("sparse_vectors"),
            "shard_number": 1,
            "replication_factor": 1,
            "write_consistency_factor": 1,
            "on_disk_payload": body.get("on_disk_payload", True),
        },
        "hnsw_config": read_hnsw(body.get("hnsw_config")),
        "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
    }
