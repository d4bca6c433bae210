"""The heavy work on documents, apart from who runs it: preparing them one by one, embedding and writing them in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cortex.ports.connectors import Connector
from cortex.ports.ingest import ObjectStore
from cortex.ports.models import TokenCounter
from cortex.settings import Settings
from data_jobs.parts import Models, Stores
from data_jobs.patience import in_isolation
from data_jobs.prepare import PrepareStage
from data_jobs.rows import Row
from data_jobs.stages.chunk import ChunkLimits, ChunkStage
from data_jobs.stages.embed import EmbedStage
from data_jobs.stages.parse import ParseStage
from data_jobs.stages.upsert import UpsertStage

Action = Callable[[list[Row]], list[Row]]

# Enough to sort by length and to share round trips; few enough that a crash repeats little.
CHUNKS_PER_BATCH = 128


def build_prepare(
    settings: Settings, connector: Connector, parse: ParseStage, objects: ObjectStore, tokens: TokenCounter
) -> PrepareStage:
    """Wire the stages up to chunking."""
    chunk = ChunkStage(ChunkLimits.from_settings(settings), tokens.count_tokens, tokens.version)
    return PrepareStage(connector, parse, chunk, objects, settings.max_file_bytes)


def prepare_one(prepare: PrepareStage, row: Row) -> Row:
    """Prepare one document; whatever is wrong with it becomes its failure."""
    (done,) = in_isolation(lambda rows: [prepare(rows[0])], [row])
    return done


class EmbedRows:
    """Fills in the vectors of prepared documents, all chunks of a batch together."""

    def __init__(self, models: Models) -> None:
        self._embed = EmbedStage(models.embedder, models.lexical)

    def __call__(self, rows: list[Row]) -> list[Row]:
        """Embed the documents that go on; a document that breaks the encoder fails alone."""
        return _where_going_on(rows, self._batch)

    def _batch(self, rows: list[Row]) -> list[Row]:
        vectors = iter(self._embed([chunk for row in rows for chunk in row.chunks]))
        return [replace(row, vectors=tuple(next(vectors) for _ in row.chunks)) for row in rows]


class UpsertRows:
    """Writes embedded documents and returns them without their load."""

    def __init__(self, stores: Stores, embedding_model_version: str) -> None:
        self._upsert = UpsertStage(stores.catalog, stores.index, embedding_model_version)

    def __call__(self, rows: list[Row]) -> list[Row]:
        """Write the documents that go on; a document that a store refuses fails alone."""
        return [row.lightened() for row in _where_going_on(rows, self._batch)]

    def _batch(self, rows: list[Row]) -> list[Row]:
        self._upsert(rows)
        return rows


def batches(rows: Iterator[Row], n_chunks: int = CHUNKS_PER_BATCH) -> Iterator[list[Row]]:
    """Collect documents until they have enough chunks together; order is kept."""
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if sum(len(other.chunks) for other in batch) >= n_chunks or len(batch) >= n_chunks:
            yield batch
            batch = []
    if batch:
        yield batch


def _where_going_on(rows: list[Row], action: Action) -> list[Row]:
    going = [row for row in rows if row.is_going_on]
    done = iter(in_isolation(action, going) if going else [])
    return [next(done) if row.is_going_on else row for row in rows]
