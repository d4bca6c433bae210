"""Points in files: one JSON object a line, compressed; dense vectors as the bytes of float32, base64."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cortex.chunks import ChunkVectors, IndexPoint, SparseVector

_COMPRESSION = 1


def write_points(path: Path, points: Iterable[IndexPoint]) -> int:
    """Write points; returns how many."""
    n_points = 0
    with gzip.open(path, "wt", _COMPRESSION, encoding="utf-8") as file:
        for point in points:
            file.write(json.dumps(_packed(point), separators=(",", ":")) + "\n")
            n_points += 1
    return n_points


def read_points(path: Path) -> Iterator[IndexPoint]:
    """Read points back, in order."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield _unpacked(json.loads(line))


def _packed(point: IndexPoint) -> dict[str, Any]:
    names = [name for name in IndexPoint.__slots__ if name not in ("vectors", "updated_at", "meta")]
    sparse = point.vectors.sparse
    return {
        **{name: getattr(point, name) for name in names},
        "updated_at": point.updated_at.timestamp() if point.updated_at else None,
        "meta": dict(point.meta),
        "dense": base64.b64encode(point.vectors.dense.astype("<f4").tobytes()).decode(),
        "indices": list(sparse.indices),
        "values": list(sparse.values),
    }


def _unpacked(line: dict[str, Any]) -> IndexPoint:
    dense = np.frombuffer(base64.b64decode(line.pop("dense")), dtype="<f4").astype(np.float32)
    sparse = SparseVector(tuple(line.pop("indices")), tuple(line.pop("values")))
    updated_at = line.pop("updated_at")
    moment = None if updated_at is None else datetime.fromtimestamp(updated_at, UTC)
    return IndexPoint(**line, updated_at=moment, vectors=ChunkVectors(dense, sparse))
