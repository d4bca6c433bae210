"""Vectors: a hash of all that the points which searches read hold, to the last bit."""

from __future__ import annotations

import numpy as np

from adapters.qdrant_reader import QdrantIndexReader
from cortex.chunks import IndexPoint
from data_jobs.consistency.digests import ContentHash
from data_jobs.consistency.report import Ledger


def hash_vectors(index: QdrantIndexReader, ledger: Ledger) -> str:
    """Hash dense and sparse vectors by chunk; raises Corrupt when a point lacks one."""
    content = ContentHash()
    if serving := index.serving():
        for point in index.whole_points(serving):
            content.add_bytes(as_bytes(point))
            ledger.looked_at("vectors")
    return content.hexdigest()


def as_bytes(point: IndexPoint) -> bytes:
    """Join a point's id and vectors, little-endian and each with its length, so that no two points look the same."""
    sparse = point.vectors.sparse
    arrays = (
        np.asarray(point.vectors.dense, "<f4"),
        np.asarray(sparse.indices, "<u4"),
        np.asarray(sparse.values, "<f4"),
    )
    return b"".join(
        len(part).to_bytes(8, "little") + part
        for part in (point.chunk_id.encode(), *(array.tobytes() for array in arrays))
    )
