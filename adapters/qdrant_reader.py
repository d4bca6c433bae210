"""The vector index on Qdrant, read whole and in order, to compare it with the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

from adapters.qdrant_clients import ALIAS, open_client
from adapters.qdrant_errors import translated
from adapters.qdrant_filters import match
from adapters.qdrant_writer import collection_name
from cortex.chunks import ChunkVectors, IndexPoint, PointPayload, SparseVector
from cortex.errors import Corrupt, Unavailable
from cortex.settings import Settings

_TIMEOUT_S = 60
_PAGE = 1_000
_WHOLE_PAGE = 200  # some 10 KB each
_FIELDS = [field.name for field in fields(PointPayload)]


class QdrantIndexReader:
    """Reads collections of all model versions."""

    def __init__(self, client: QdrantClient, *, alias: str = ALIAS) -> None:
        self._client = client
        self._alias = alias

    @classmethod
    def from_settings(cls, settings: Settings, alias: str = ALIAS) -> QdrantIndexReader:
        """Connect to `CORTEX_QDRANT_URL`; the first call opens the connection."""
        return cls(open_client(settings, _TIMEOUT_S), alias=alias)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def collections(self) -> list[str]:
        """List the collections that hold chunks."""
        with translated():
            found = self._client.get_collections().collections
        return sorted(one.name for one in found if one.name.startswith(f"{self._alias}-"))

    def serving(self) -> str:
        """Name the collection that searches read; empty when there is none."""
        with translated():
            aliases = self._client.get_aliases().aliases
        return next((one.collection_name for one in aliases if one.alias_name == self._alias), "")

    def collection_of(self, embedding_model_version: str) -> str:
        """Name the collection that holds a model version's points."""
        return collection_name(self._alias, embedding_model_version)

    def points(self, collection: str) -> Iterator[tuple[str, PointPayload]]:
        """Stream a collection's points by ascending id; points written meanwhile may or may not be among them."""
        offset: Any = None
        last = ""
        while True:
            with translated():
                records, offset = self._client.scroll(
                    collection, limit=_PAGE, offset=offset, with_payload=_FIELDS, with_vectors=False
                )
            for record in records:
                if str(record.id) <= last:
                    raise Unavailable(
                        "the vector index does not list points in order", code="index.unordered"
                    )
                last = str(record.id)
                yield last, _payload(record.payload or {})
            if offset is None:
                return

    def whole_points(self, collection: str) -> Iterator[IndexPoint]:
        """Stream a collection's points with their vectors, for a backup."""
        offset: Any = None
        while True:
            with translated():
                records, offset = self._client.scroll(
                    collection, limit=_WHOLE_PAGE, offset=offset, with_payload=True, with_vectors=True
                )
            yield from map(_whole, records)
            if offset is None:
                return

    def get(self, collection: str, chunk_ids: Sequence[str]) -> dict[str, PointPayload]:
        """Read some points by id; those that are not there are left out."""
        ids: list[models.ExtendedPointId] = list(chunk_ids)
        with translated():
            records = self._client.retrieve(collection, ids, with_payload=_FIELDS, with_vectors=False)
        return {str(record.id): _payload(record.payload or {}) for record in records}

    def count_source(self, source_id: str) -> int:
        """Count a source's points in all collections, exactly."""
        chosen = models.Filter(must=[match("source_id", source_id)])
        with translated():
            return sum(
                self._client.count(name, count_filter=chosen, exact=True).count for name in self.collections()
            )


def _payload(stored: Mapping[str, Any]) -> PointPayload:
    return PointPayload(**{name: stored.get(name) for name in _FIELDS})


def _whole(record: models.Record) -> IndexPoint:
    payload, vectors = record.payload or {}, record.vector
    if not isinstance(vectors, dict) or not isinstance(sparse := vectors.get("bm25"), models.SparseVector):
        raise Corrupt(
            f"point {record.id} lacks a vector",
            code="index.corrupt",
            hint="cortex doctor --consistency --repair",
        )
    told: dict[str, Any] = {
        name: payload.get(name) for name in _FIELDS if name not in ("updated_at", "is_deleted")
    }
    moment = payload.get("updated_at")
    return IndexPoint(
        chunk_id=str(record.id),
        **{name: _known(name, value) for name, value in told.items()},
        updated_at=None if moment is None else datetime.fromtimestamp(moment, UTC),
        vectors=ChunkVectors(
            np.asarray(vectors["dense"], np.float32),
            SparseVector(tuple(sparse.indices), tuple(sparse.values)),
        ),
        meta=payload.get("meta") or {},
    )


def _known(name: str, value: Any) -> Any:
    """Give a field that a point lacks the value that shows it to nobody."""
    return value if value is not None else (0 if name == "profile_id" else "")
