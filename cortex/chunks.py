"""Chunks: the unit that is embedded, searched and cited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from cortex.documents import Anchor


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of one document's body.

    `text` is what is shown and cited: exactly `body.encode()[byte_start:byte_end]` decoded. `embed_text` is what the
    encoders see: title and heading path in front of the text.
    """

    chunk_id: str
    document_id: str
    ordinal: int
    text: str
    embed_text: str
    byte_start: int
    byte_end: int
    anchor: Anchor
    heading_path: tuple[str, ...] = ()
    kind: str = "paragraph"
    n_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A sparse term vector: `indices` are uint32 term ids, ascending and distinct; `values` float32 weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ChunkVectors:
    """The vectors of one chunk: `dense` is float32[d], a unit row; `sparse` holds BM25 term weights."""

    dense: NDArray[np.float32]
    sparse: SparseVector


@dataclass(frozen=True, slots=True)
class IndexPoint:
    """One chunk as the vector index stores it: id, vectors and the payload fields that filters use."""

    chunk_id: str
    document_id: str
    tenant_id: str
    profile_id: int
    source_id: str
    source_type: str
    collection: str
    group_id: str
    updated_at: datetime | None
    embedding_model_version: str
    vectors: ChunkVectors
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PointPayload:
    """What a point of the vector index says beside its vectors; None where a stored point lacks the field.

    `updated_at` is in whole seconds since 1970. Profile 0 is nobody.
    """

    tenant_id: str | None
    profile_id: int | None
    source_id: str | None
    source_type: str | None
    collection: str | None
    document_id: str | None
    group_id: str | None
    updated_at: int | None
    is_deleted: bool | None
    embedding_model_version: str | None
