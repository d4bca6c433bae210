"""The actors of a bulk load: one kind reads, parses and chunks, the other embeds. What passes between them lies in Parquet.

Through Ray go names and numbers only, so its object store stays empty however large the documents are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.registry import build_connector
from cortex.chunks import Chunk
from cortex.documents import NOBODY, Item
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings, adopt
from cortex.telemetry import event, setup_logging
from data_jobs.attempts import DEATHS_UNTIL_POISON, POISON, Attempts
from data_jobs.checkpoint import Checkpoint, Embedded, Part
from data_jobs.parts import build_models, build_objects, build_token_counter
from data_jobs.portions import Portion
from data_jobs.ray_cluster import NICENESS, held_gpus
from data_jobs.rows import Row
from data_jobs.stages.parse import ParseStage
from data_jobs.work import EmbedRows, build_prepare, prepare_one

# How far preparing may run ahead of writing: some megabytes of Parquet.
_ROWS_AHEAD = 1_024
_LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """What the actors of one load have in common."""

    settings: Settings
    config: SourceConfig
    folder: Path

    @property
    def attempts(self) -> Attempts:
        """The counter of starts that never ended."""
        return Attempts(self.folder / "attempts")


class PreparePortions:
    """Takes portions from their items to a part on disk, and names its pieces."""

    def __init__(self, job: Job) -> None:
        _settle_in(job)
        self._checkpoint, self._attempts = Checkpoint(job.folder), job.attempts
        self._prepare = build_prepare(
            job.settings,
            build_connector(job.config),
            ParseStage(job.settings),
            build_objects(job.settings),
            build_token_counter(job.settings),
        )

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Return a row per piece of each portion; one without chunks has one empty piece."""
        pieces = [piece for portion in batch["portion"] for piece in self._pieces(portion)]
        names, numbers, counts = zip(*pieces, strict=True)
        return {"name": list(names), "piece": list(numbers), "n_pieces": list(counts)}

    def _pieces(self, portion: Portion) -> Iterator[tuple[str, int, int]]:
        part = self._checkpoint.find(portion.name) or self._made(portion)
        return ((part.name, number, part.n_pieces) for number in range(max(part.n_pieces, 1)))

    def _made(self, portion: Portion) -> Part:
        while portion.first - self._checkpoint.n_settled > _ROWS_AHEAD:
            time.sleep(_LOOK_AGAIN_S)
        return self._checkpoint.save(portion.name, [self._prepared(row) for row in portion.rows])

    def _prepared(self, row: Row) -> Row:
        key = row.item.external_id
        is_poison = self._attempts.begin(key) >= DEATHS_UNTIL_POISON
        done = row.failed(*POISON) if is_poison else prepare_one(self._prepare, row)
        self._attempts.end(key)
        return done


class EmbedPieces:
    """Writes the vectors of pieces beside them. After a death a piece goes document by document, until the bad one is known."""

    def __init__(self, job: Job) -> None:
        _settle_in(job)
        self._checkpoint, self._attempts = Checkpoint(job.folder), job.attempts
        gpus = held_gpus()
        models = build_models(job.settings, on_gpu=bool(gpus))
        self._is_on_gpu, self._dimension = models.embedder.is_on_gpu, models.embedder.dimension
        event("embedder.opened", gpus=gpus, is_on_gpu=self._is_on_gpu)
        self._embed = EmbedRows(models)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch as it came, where and into how many dimensions it was embedded, once all vectors are on disk."""
        for name, number, n_pieces in zip(batch["name"], batch["piece"], batch["n_pieces"], strict=True):
            part = Part(str(name), int(n_pieces))
            if part.n_pieces and not self._checkpoint.is_embedded(part, int(number)):
                self._checkpoint.save_vectors(part, int(number), self._embedded(part, int(number)))
        n_pieces = len(batch["name"])
        return {**batch, "is_on_gpu": [self._is_on_gpu] * n_pieces, "dimension": [self._dimension] * n_pieces}

    def _embedded(self, part: Part, number: int) -> Embedded:
        rows = _by_document(self._checkpoint.piece(part, number))
        key = f"{part.name}.{number}"
        if self._attempts.begin(key):
            done = [self._alone(row, f"{key}.{row.item.external_id}") for row in rows]
        else:
            done = self._embed(rows)
        self._attempts.end(key)
        return Embedded(
            {
                chunk.chunk_id: vectors
                for row in done
                for chunk, vectors in zip(row.chunks, row.vectors, strict=True)
            },
            {row.item.external_id: (row.failure.code, row.failure.reason) for row in done if row.failure},
        )

    def _alone(self, row: Row, key: str) -> Row:
        """Embed what one document has in a piece; the death that brought it here counts as its first."""
        is_poison = self._attempts.begin(key) + 1 >= DEATHS_UNTIL_POISON
        (done,) = [row.failed(*POISON)] if is_poison else self._embed([row])
        self._attempts.end(key)
        return done


def _by_document(chunks: list[Chunk]) -> list[Row]:
    """Make rows of a piece's chunks that carry just these, under their documents' ids."""
    by_id: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_id.setdefault(chunk.document_id, []).append(chunk)
    return [Row(Item(name, ""), NOBODY, "", chunks=tuple(own)) for name, own in by_id.items()]


def _settle_in(job: Job) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    adopt(job.settings)
    setup_logging(job.settings.log_level)
