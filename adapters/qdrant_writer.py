"""The vector index on Qdrant, for writing: one collection per embedding model version behind one alias."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from qdrant_client import QdrantClient, models

from adapters.qdrant_clients import ALIAS, open_client
from adapters.qdrant_errors import translated
from adapters.qdrant_filters import epoch_s, match
from cortex.chunks import IndexPoint
from cortex.errors import InputError, Misconfigured, TimedOut
from cortex.settings import Settings
from cortex.telemetry import event

_TIMEOUT_S = 120  # an upsert may wait for a copy that the embedded index takes to optimize it
_BATCH = 128
_OPTIMIZE_TIMEOUT_S = 3_600

# Every field that a filter uses; all exist before the first point.
PAYLOAD_INDEXES: dict[str, models.PayloadSchemaType | models.KeywordIndexParams] = {
    "tenant_id": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "profile_id": models.PayloadSchemaType.INTEGER,
    "source_id": models.PayloadSchemaType.KEYWORD,
    "source_type": models.PayloadSchemaType.KEYWORD,
    "collection": models.PayloadSchemaType.KEYWORD,
    "document_id": models.PayloadSchemaType.KEYWORD,
    "updated_at": models.PayloadSchemaType.INTEGER,
    "is_deleted": models.PayloadSchemaType.BOOL,
}


class QdrantIndexWriter:
    """An IndexWriter. Deletions and access changes reach the collections of every model version."""

    def __init__(self, client: QdrantClient, *, alias: str = ALIAS) -> None:
        self._client = client
        self._alias = alias

    @classmethod
    def from_settings(cls, settings: Settings, alias: str = ALIAS) -> QdrantIndexWriter:
        """Connect to `CORTEX_QDRANT_URL`; the first call opens the connection."""
        return cls(open_client(settings, _TIMEOUT_S), alias=alias)

    def ensure(self, embedding_model_version: str, dimension: int) -> None:
        """Create the version's collection with its payload indexes, or verify them, and point the alias at it."""
        name = self._collection(embedding_model_version)
        with translated():
            if not self._client.collection_exists(name):
                self._create(name, dimension)
            info = self._client.get_collection(name)
            if not info.points_count:
                self._create_indexes(name, info)
                info = self._client.get_collection(name)
            if differences := _differences(info, dimension):
                raise Misconfigured(
                    f"the vector index {name} differs from what Cortex needs: {'; '.join(differences)}",
                    code="index.mismatch",
                    hint="delete that collection and load the sources again",
                )
            self._point_alias(name)

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Insert or replace points; returns when a search sees them."""
        for start in range(0, len(points), _BATCH):
            with translated():
                self._client.upsert(
                    self._alias, [_point(point) for point in points[start : start + _BATCH]], wait=True
                )

    def delete_chunks(self, chunk_ids: Sequence[str]) -> None:
        """Delete points by id."""
        if not chunk_ids:
            raise InputError("an empty list of chunks selects nothing to delete", code="selector.empty")
        ids: list[models.ExtendedPointId] = list(chunk_ids)
        self._everywhere(lambda name: self._client.delete(name, models.PointIdsList(points=ids), wait=True))

    def delete_document(self, document_id: str) -> None:
        """Delete every point of a document."""
        chosen = _document(document_id)
        self._everywhere(
            lambda name: self._client.delete(name, models.FilterSelector(filter=chosen), wait=True)
        )

    def delete_source(self, source_id: str) -> None:
        """Delete every point of a source."""
        if not source_id:
            raise InputError("an empty source id selects nothing", code="selector.empty")
        chosen = models.FilterSelector(filter=models.Filter(must=[match("source_id", source_id)]))
        self._everywhere(lambda name: self._client.delete(name, chosen, wait=True))

    def set_profile(self, document_id: str, profile_id: int) -> None:
        """Change the access profile on every point of a document."""
        chosen, payload = _document(document_id), {"profile_id": profile_id}
        self._everywhere(lambda name: self._client.set_payload(name, payload, points=chosen, wait=True))

    def count(self, tenant_id: str) -> int:
        """Count a tenant's points exactly."""
        with translated():
            chosen = models.Filter(must=[match("tenant_id", tenant_id)])
            return self._client.count(self._alias, count_filter=chosen, exact=True).count

    def optimize(self) -> None:
        """Wake the index's optimizer and wait until it is done; an hour at most."""
        with translated():
            self._client.update_collection(self._alias, optimizers_config=models.OptimizersConfigDiff())
            ends_at_s = time.monotonic() + _OPTIMIZE_TIMEOUT_S
            while self._client.get_collection(self._alias).status == models.CollectionStatus.YELLOW:
                if time.monotonic() > ends_at_s:
                    raise TimedOut("the vector index is still optimizing", code="index.timed_out")
                time.sleep(0.2)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _collection(self, version: str) -> str:
        return collection_name(self._alias, version)

    def _create(self, name: str, dimension: int) -> None:
        self._client.create_collection(
            name,
            vectors_config={"dense": models.VectorParams(size=dimension, distance=models.Distance.COSINE)},
            sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        event("index.created", collection=name, dimension=dimension)

    def _create_indexes(self, name: str, info: models.CollectionInfo) -> None:
        for field, schema in PAYLOAD_INDEXES.items():
            if field not in info.payload_schema:
                self._client.create_payload_index(name, field, schema, wait=True)

    def _point_alias(self, name: str) -> None:
        """Cut over at once: questions are embedded by the new model from now on, and old vectors mean nothing to it."""
        current = {alias.alias_name: alias.collection_name for alias in self._client.get_aliases().aliases}
        if current.get(self._alias) == name:
            return
        create = models.CreateAliasOperation(
            create_alias=models.CreateAlias(collection_name=name, alias_name=self._alias)
        )
        delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._alias))
        self._client.update_collection_aliases([delete, create] if self._alias in current else [create])
        event("index.cut_over", alias=self._alias, collection=name, previous=current.get(self._alias, ""))

    def _everywhere(self, write: Callable[[str], object]) -> None:
        with translated():
            for collection in self._client.get_collections().collections:
                if collection.name.startswith(f"{self._alias}-"):
                    write(collection.name)


def collection_name(alias: str, embedding_model_version: str) -> str:
    """Name the collection that holds a model version's points."""
    return f"{alias}-" + re.sub(r"[^A-Za-z0-9._-]", "-", embedding_model_version)


def _document(document_id: str) -> models.Filter:
    if not document_id:
        raise InputError("an empty document id selects nothing", code="selector.empty")
    return models.Filter(must=[match("document_id", document_id)])


def _point(point: IndexPoint) -> models.PointStruct:
    sparse = point.vectors.sparse
    return models.PointStruct(
        id=point.chunk_id,
        vector={
            "dense": point.vectors.dense.tolist(),
            "bm25": models.SparseVector(indices=list(sparse.indices), values=list(sparse.values)),
        },
        payload={
            "tenant_id": point.tenant_id,
            "profile_id": point.profile_id,
            "source_id": point.source_id,
            "source_type": point.source_type,
            "collection": point.collection,
            "document_id": point.document_id,
            "group_id": point.group_id,
            "updated_at": epoch_s(point.updated_at),
            "is_deleted": False,
            "embedding_model_version": point.embedding_model_version,
            **({"meta": dict(point.meta)} if point.meta else {}),
        },
    )


def _differences(info: models.CollectionInfo, dimension: int) -> list[str]:
    """Name what of a collection is not as it must be."""
    params = info.config.params
    dense = params.vectors.get("dense") if isinstance(params.vectors, dict) else None
    sparse = (params.sparse_vectors or {}).get("bm25")
    found = []
    if dense is None or dense.size != dimension or dense.distance != models.Distance.COSINE:
        found.append(f"vector `dense` is not cosine of {dimension} dimensions")
    if sparse is None or sparse.modifier != models.Modifier.IDF:
        found.append("sparse vector `bm25` has no IDF modifier")
    for field, wanted in PAYLOAD_INDEXES.items():
        kind = wanted if isinstance(wanted, models.PayloadSchemaType) else models.PayloadSchemaType.KEYWORD
        index = info.payload_schema.get(field)
        if index is None:
            found.append(f"payload index on {field} is missing")
        elif index.data_type != kind:
            found.append(f"payload index on {field} is {index.data_type.value}, not {kind.value}")
        elif isinstance(wanted, models.KeywordIndexParams) and not getattr(index.params, "is_tenant", False):
            found.append(f"payload index on {field} is not marked as the tenant's")
    return found
