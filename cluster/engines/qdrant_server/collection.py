"""One collection: its shard on disk, its writes, and the optimizer that works on a copy while searches go on.

Layout: `meta.json` names the current generation, `gen-N/` is that shard. Whatever `meta.json` does not name is the
rest of an unfinished step and is removed when the collection is opened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from cluster.engines.qdrant_server import schema
from cluster.engines.qdrant_server.problems import NotFound

_FLUSH_AFTER_S = 5.0  # Qdrant's own interval; a killed process loses nothing, a power cut what came since
# A sync costs by the size of the shard, not of what is new: a large one waits, so that it takes a fiftieth of the time.
_FLUSH_SHARE = 0.02
_FLUSH_AFTER_S_AT_MOST = 30.0
_IDLE_S = 3.0
_CHANGED_WHEN_IDLE = 500  # below this an unoptimized shard answers as fast
_CHANGED_WHEN_BUSY = 5_000
_NO_GRAPH = {"m": 0}


@dataclass(slots=True)
class Generation:
    """One opened shard and how many requests are reading it."""

    number: int
    shard: Any
    readers: int = 0
    is_retired: bool = False


class Collection:
    """A collection. Thread-safe; a write returns once it is in the write-ahead log and visible to searches."""

    def __init__(self, folder: Path, graph_from: int) -> None:
        self.folder = folder
        self._graph_from = graph_from
        self._meta = json.loads((folder / "meta.json").read_text())
        for left in folder.glob("gen-*"):
            if left.name != f"gen-{self._meta['generation']}":
                shutil.rmtree(left)
        number = self._meta["generation"]
        self._current = Generation(number, edge.EdgeShard.load(str(folder / f"gen-{number}")))
        self._swap = threading.Lock()  # guards the current generation and its readers
        self._writes = threading.Lock()  # one write at a time, none during a copy or a swap
        self._journal: list[Any] | None = None
        self._changed = abs(self._current.shard.info().points_count - self._meta["optimized_points"])
        self._wrote_at_s = self._flushed_at_s = time.monotonic()
        self._flush_after_s = _FLUSH_AFTER_S
        self._is_requested = False
        self._is_optimizing = False
        self.optimizer_error = ""

    @classmethod
    def create(cls, folder: Path, body: dict[str, Any], graph_from: int) -> Collection:
        """Create a collection on disk; it exists once its `meta.json` does."""
        config = schema.read_collection(body)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "gen-1").mkdir(parents=True)
        edge.EdgeShard.create(str(folder / "gen-1"), config).close()
        write_json(folder / "meta.json", {"generation": 1, "optimized_points": 0, "body": body})
        return cls(folder, graph_from)

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Hold the current shard open while a request reads it."""
        with self._swap:
            generation = self._current
            if generation.is_retired:
                raise NotFound(f"Collection `{self.folder.name}` was deleted")
            generation.readers += 1
        try:
            yield generation.shard
        finally:
            self._leave(generation)

    def write(self, operations: Sequence[Any], n_points: int) -> None:
        """Apply operations in order."""
        with self._writes, self.reading() as shard:
            for operation in operations:
                shard.update(operation)
                if self._journal is not None:
                    self._journal.append(operation)
            self._changed += n_points
            self._wrote_at_s = time.monotonic()

    def info(self) -> dict[str, Any]:
        """State size, configuration and payload indexes as the API's JSON."""
        with self.reading() as shard:
            info = shard.info()
        is_busy = self._is_requested or self._is_optimizing
        return {
            "status": "yellow" if is_busy else "green",
            "optimizer_status": {"error": self.optimizer_error} if self.optimizer_error else "ok",
            "points_count": info.points_count,
            "indexed_vectors_count": info.indexed_vectors_count,
            "segments_count": info.segments_count,
            "config": schema.write_config(self._meta["body"]),
            "payload_schema": {
                name: schema.write_index(index) for name, index in info.payload_schema.items()
            },
            "update_queue": {"length": 0},
        }

    def request_optimize(self) -> None:
        """Ask the maintenance thread to optimize at its next turn."""
        self._is_requested = True

    def flush_if_due(self) -> None:
        """Sync what was written to the disk."""
        now_s = time.monotonic()
        if self._wrote_at_s >= self._flushed_at_s and now_s - self._flushed_at_s >= self._flush_after_s:
            with self.reading() as shard:
                shard.flush()
            self._flushed_at_s = now_s
            took_s = time.monotonic() - now_s
            self._flush_after_s = min(max(_FLUSH_AFTER_S, took_s / _FLUSH_SHARE), _FLUSH_AFTER_S_AT_MOST)

    def is_optimize_due(self) -> bool:
        """Say whether enough has changed: a little when idle, much while writes go on, anything on request."""
        points = max(1, self._meta["optimized_points"])
        is_idle = time.monotonic() - self._wrote_at_s >= _IDLE_S
        return (
            self._is_requested
            or (is_idle and self._changed >= max(_CHANGED_WHEN_IDLE, points // 20))
            or self._changed >= max(_CHANGED_WHEN_BUSY, points // 2)
        )

    def optimize(self, stop: threading.Event) -> None:
        """Optimize a copy in a child process, replay what was written meanwhile, and swap it in."""
        self._is_optimizing, self._is_requested = True, False
        number = self._current.number + 1
        target = self.folder / f"gen-{number}"
        try:
            points = self._copy_to(target)
            self.optimizer_error = self._run_child(target, points, stop)
            if not self.optimizer_error:
                self._swap_in(number, target)
        finally:
            self._journal, self._is_optimizing = None, False
            if self._current.number != number:
                shutil.rmtree(target, ignore_errors=True)

    def put_off(self, reason: str) -> None:
        """Remember why maintenance failed, and try again only after as many changes as for a first time."""
        self.optimizer_error = reason
        self._changed = 0
        self._flushed_at_s = time.monotonic()

    def close(self) -> None:
        """Sync and close the shard; later requests find it gone."""
        with self._writes, self._swap:
            generation = self._current
            generation.shard.flush()
            generation.is_retired = True
            is_last = not generation.readers
        if is_last:
            generation.shard.close()

    def _copy_to(self, target: Path) -> int:
        with self._writes, self.reading() as shard:
            shard.flush()
            shutil.copytree(self.folder / f"gen-{self._current.number}", target)
            self._journal = []
            self._changed = 0
            return int(shard.info().points_count)

    def _run_child(self, target: Path, points: int, stop: threading.Event) -> str:
        """Run the optimizer; returns why it failed, or nothing. Small collections get no graph: a scan is exact."""
        body = self._meta["body"]
        graph = schema.read_hnsw(body.get("hnsw_config")) | ({} if points >= self._graph_from else _NO_GRAPH)
        command = [sys.executable, "-m", "cluster.engines.qdrant_server.optimize", str(target)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
            if child.stdin:
                json.dump({"body": body, "graph": graph}, child.stdin)
                child.stdin.close()
            while child.poll() is None:
                if stop.wait(0.1):
                    child.kill()
                    return "stopped"
        return f"the optimizer ended with {child.returncode}" if child.returncode else ""

    def _swap_in(self, number: int, target: Path) -> None:
        shard = edge.EdgeShard.load(str(target))
        with self._writes:
            for operation in self._journal or ():
                shard.update(operation)
            shard.flush()
            points = int(shard.info().points_count)
            meta = self._meta | {"generation": number, "optimized_points": points}
            write_json(self.folder / "meta.json", meta)  # from here on a restart opens the new generation
            with self._swap:
                old, self._current, self._meta = self._current, Generation(number, shard), meta
                old.is_retired = True
                is_unread = not old.readers
        if is_unread:
            self._drop(old)

    def _leave(self, generation: Generation) -> None:
        with self._swap:
            generation.readers -= 1
            is_last = generation.is_retired and not generation.readers
        if is_last:
            self._drop(generation)

    def _drop(self, generation: Generation) -> None:
        generation.shard.close()
        if generation is not self._current:
            shutil.rmtree(self.folder / f"gen-{generation.number}", ignore_errors=True)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file so that a crash leaves the old or the new one, never a part."""
    draft = path.with_suffix(".draft")
    with draft.open("w") as stream:
        json.dump(value, stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
