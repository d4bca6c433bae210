"""The embedded vector index as a process of its own, for tests that need nothing else."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from qdrant_client import QdrantClient, models

_READY_S = 60


class QdrantProcess:
    """`python -m cluster.engines.qdrant_server` on a folder and a free port."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        command = [sys.executable, "-m", "cluster.engines.qdrant_server", "--path", str(self.folder)]
        self._process = subprocess.Popen([*command, "--port", str(self.port), *self._arguments])
        ends_at = time.monotonic() + _READY_S
        while True:
            try:
                httpx.get(f"{self.url}/readyz").raise_for_status()
                return
            except httpx.HTTPError:
                if time.monotonic() > ends_at or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def __enter__(self) -> QdrantProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout=30)


VECTORS = {"dense": models.VectorParams(size=4, distance=models.Distance.COSINE)}
SPARSE = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}


def point(number: int, **payload: Any) -> models.PointStruct:
    """A point whose vectors and payload follow from its number."""
    return models.PointStruct(
        id=number,
        vector={
            "dense": [1.0, number / 10, 0.0, 0.0],
            "bm25": models.SparseVector(indices=[1, number + 1], values=[1.0, 2.0]),
        },
        payload={"n": number, "even": number % 2 == 0, "kind": "ab"[number % 2], "half": number / 2}
        | payload,
    )


def connect(process: QdrantProcess) -> QdrantClient:
    # Its own check runs in a thread that outlives short tests.
    return QdrantClient(url=process.url, timeout=30, check_compatibility=False)


def ids(points: list[Any]) -> list[int]:
    return [int(one.id) for one in points]
