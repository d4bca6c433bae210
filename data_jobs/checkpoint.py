"""The checkpoint of a bulk load: what parsing and embedding made, as Parquet in the home, until it is in the stores.

Writes and reads `work/SOURCE/RECIPE/`. A *part* holds some documents in order and their chunks, shortest first, in row
groups; a *piece* is such a group, and the unit of embedding. Files appear whole, by renaming, and the documents of a part
last: what can be seen is finished work, which no rerun repeats. A part goes when its documents are settled, and the folder with the
run that settles all. Several nodes need the home on storage that they share.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass

from cortex.chunks import Chunk, ChunkVectors, SparseVector
from cortex.documents import Document
from cortex.ids import sha256_hex
from cortex.ports.connectors import FetchFailure
from cortex.settings import Settings
from data_jobs.rows import LASTING_FAILURES, Row

# A few seconds of one core: what a killed worker repeats, and how unevenly two of them may end.
CHUNKS_PER_PIECE = 32
# What `checkpoint_folder` names; nothing else beside a checkpoint is ever deleted.
_OURS = re.compile(r"\w+-[0-9a-f]{8}")
_VECTORS = pa.schema(
    [
        ("chunk_id", pa.string()),
        ("dense", pa.list_(pa.float32())),
        ("indices", pa.list_(pa.uint32())),
        ("values", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True, slots=True)
class Part:
    """One finished part: its name, and how many pieces its chunks make."""

    name: str
    n_pieces: int


@checked_dataclass(
    frozen=True, slots=True, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)
class Prepared:
    """What preparing made of one document, its chunks aside."""

    external_id: str
    fingerprint: str
    content_sha256: str
    document: Document | None
    signature: bytes
    n_chunks: int
    is_unchanged: bool
    failure: FetchFailure | None


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of one piece by chunk id, and why some documents (by id) have none."""

    vectors: dict[str, ChunkVectors]
    failures: dict[str, tuple[str, str]]


_PREPARED = TypeAdapter(Prepared)
_CHUNK = TypeAdapter(Chunk)


def checkpoint_folder(settings: Settings, source_id: str, recipe: str, embedding_model_version: str) -> Path:
    """Name the folder of one source's load by one recipe: another parser, chunker or model starts afresh."""
    version = sha256_hex(embedding_model_version.encode())[:8]
    return work_folder(settings, source_id) / f"{recipe}-{version}"


def work_folder(settings: Settings, source_id: str) -> Path:
    """Name the folder of all that loads of one source left to go on from."""
    return settings.home / "work" / source_id


def are_loads_interrupted(settings: Settings) -> bool:
    """Say whether a load under way, or one that was killed, has left parts to go on from."""
    return any((settings.home / "work").glob("*/*/*"))


class Checkpoint:
    """The parts on disk. The driver and its workers each open it for themselves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> dict[tuple[str, str], Part]:
        """Make the folder, forget what other recipes left, and find what is prepared, by (external_id, fingerprint)."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in self._folder.parent.iterdir():
            if other != self._folder and _OURS.fullmatch(other.name):
                shutil.rmtree(other, ignore_errors=True)
        for unfinished in self._folder.glob("*.tmp"):
            unfinished.unlink(missing_ok=True)
        return {
            (prepared.external_id, prepared.fingerprint): part
            for part in map(
                self.find, sorted(path.name.split(".")[0] for path in self._folder.glob("*.docs"))
            )
            if part is not None
            for prepared in self._prepared(part)
            if _is_lasting(prepared)
        }

    def save(self, name: str, rows: Sequence[Row]) -> Part:
        """Write one part of prepared documents."""
        self._write_part(name, rows)
        _give_back()
        part = self.find(name)
        assert part is not None  # it was just written
        return part

    def _write_part(self, name: str, rows: Sequence[Row]) -> None:
        chunks = sorted((chunk for row in rows for chunk in row.chunks), key=lambda chunk: chunk.n_tokens)
        table = pa.table(
            {
                "text": pa.array([chunk.embed_text for chunk in chunks], pa.string()),
                "chunk": pa.array([_CHUNK.dump_json(chunk) for chunk in chunks], pa.binary()),
            }
        )
        self._write(f"{name}.chunks", table, CHUNKS_PER_PIECE)
        documents = pa.table(
            {"prepared": pa.array([_PREPARED.dump_json(_prepared(row)) for row in rows], pa.binary())},
            metadata={"n_pieces": str(-(-len(chunks) // CHUNKS_PER_PIECE))},
        )
        self._write(f"{name}.docs", documents)

    def find(self, name: str) -> Part | None:
        """Return a part that is finished, or None."""
        try:
            metadata = pq.read_schema(self._folder / f"{name}.docs").metadata
        except FileNotFoundError:
            return None
        return Part(name, int(metadata[b"n_pieces"]))

    def external_ids(self, part: Part) -> tuple[str, ...]:
        """List the documents of a part, in order."""
        return tuple(prepared.external_id for prepared in self._prepared(part))

    def piece(self, part: Part, number: int) -> list[Chunk]:
        """Read the chunks of one piece."""
        with pq.ParquetFile(self._folder / f"{part.name}.chunks") as file:
            return [
                _CHUNK.validate_json(row)
                for row in file.read_row_group(number, ["chunk"])["chunk"].to_pylist()
            ]

    def is_embedded(self, part: Part, number: int) -> bool:
        """Say whether a piece's vectors are written."""
        return (self._folder / f"{part.name}.{number}.vectors").exists()

    def save_vectors(self, part: Part, number: int, embedded: Embedded) -> None:
        """Write the vectors of one piece."""
        columns = [
            pa.array(list(embedded.vectors), pa.string()),
            pa.array([vectors.dense for vectors in embedded.vectors.values()], _VECTORS.field("dense").type),
            pa.array(
                [vectors.sparse.indices for vectors in embedded.vectors.values()],
                _VECTORS.field("indices").type,
            ),
            pa.array(
                [vectors.sparse.values for vectors in embedded.vectors.values()],
                _VECTORS.field("values").type,
            ),
        ]
        schema = _VECTORS.with_metadata({"failures": json.dumps(embedded.failures)})
        self._write(f"{part.name}.{number}.vectors", pa.table(columns, schema=schema))

    def complete(self, part: Part, rows: Sequence[Row]) -> list[Row]:
        """Fill in listed documents what preparing and embedding made of them; those of other parts are left out."""
        chunks, vectors, failures = self._made(part)
        _give_back()
        prepared = {made.external_id: made for made in self._prepared(part)}
        return [
            _completed(row, prepared[row.item.external_id], chunks, vectors, failures)
            for row in rows
            if row.item.external_id in prepared
        ]

    def drop(self, part: Part) -> None:
        """Delete a part whose documents are settled, its documents first."""
        for suffix in (".docs", ".chunks", *(f".{number}.vectors" for number in range(part.n_pieces))):
            (self._folder / f"{part.name}{suffix}").unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete everything of this source: its load is done."""
        shutil.rmtree(self._folder.parent, ignore_errors=True)

    @property
    def n_settled(self) -> int:
        """How many listed documents of this run are settled; preparing stays a bounded number ahead."""
        try:
            return int((self._folder / "settled").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def settle(self, n_settled: int) -> None:
        """Note how many listed documents of this run are settled."""
        self._replace("settled", lambda path: path.write_text(str(n_settled)))

    def _prepared(self, part: Part) -> Iterator[Prepared]:
        table = pq.read_table(self._folder / f"{part.name}.docs")
        return (_PREPARED.validate_json(row) for row in table["prepared"].to_pylist())

    def _made(
        self, part: Part
    ) -> tuple[dict[str, list[Chunk]], dict[str, ChunkVectors], dict[str, tuple[str, str]]]:
        """Read a part's chunks by document, its vectors by chunk, and the failures of embedding by document."""
        chunks: dict[str, list[Chunk]] = {}
        vectors: dict[str, ChunkVectors] = {}
        failures: dict[str, tuple[str, str]] = {}
        for number in range(part.n_pieces):
            for chunk in self.piece(part, number):
                chunks.setdefault(chunk.document_id, []).append(chunk)
            embedded = self._embedded(part, number)
            vectors |= embedded.vectors
            failures |= embedded.failures
        return chunks, vectors, failures

    def _embedded(self, part: Part, number: int) -> Embedded:
        table = pq.read_table(self._folder / f"{part.name}.{number}.vectors")
        rows = zip(*(table[name].to_pylist() for name in ("chunk_id", "indices", "values")), strict=True)
        dense = np.asarray(table["dense"].combine_chunks().flatten(), np.float32).reshape(len(table), -1)
        vectors = {
            chunk_id: ChunkVectors(vector.copy(), SparseVector(tuple(indices), tuple(values)))
            for (chunk_id, indices, values), vector in zip(rows, dense, strict=True)
        }
        failures = json.loads(table.schema.metadata[b"failures"])
        return Embedded(vectors, {name: (code, reason) for name, (code, reason) in failures.items()})

    def _write(self, name: str, table: pa.Table, rows_per_group: int | None = None) -> None:
        self._replace(
            name, lambda path: pq.write_table(table, path, row_group_size=rows_per_group, compression="zstd")
        )

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        """Make a file appear whole: two workers may write the same one, with the same content."""
        unfinished = self._folder / f"{name}.{os.getpid()}.tmp"
        write(unfinished)
        unfinished.replace(self._folder / name)


def _give_back() -> None:
    """Return to the system what Arrow keeps of past tables: 55 MiB once a PDF of two thousand pages is written."""
    pa.default_memory_pool().release_unused()


def _prepared(row: Row) -> Prepared:
    return Prepared(
        row.item.external_id,
        row.fingerprint,
        row.content_sha256,
        row.document,
        row.signature,
        row.n_chunks,
        row.is_unchanged,
        row.failure,
    )


def _is_lasting(prepared: Prepared) -> bool:
    """Say whether the next run would make the same of it: a failure that may pass is tried again."""
    failure = prepared.failure
    return not prepared.is_unchanged and (failure is None or failure.code in LASTING_FAILURES)


def _completed(
    row: Row,
    made: Prepared,
    chunks: dict[str, list[Chunk]],
    vectors: dict[str, ChunkVectors],
    failures: dict[str, tuple[str, str]],
) -> Row:
    row = replace(
        row.lightened(),
        content_sha256=made.content_sha256,
        document=made.document,
        signature=made.signature,
        n_chunks=made.n_chunks,
        is_unchanged=made.is_unchanged,
        failure=made.failure,
    )
    if made.document is None or not row.is_going_on:
        return row
    if failure := failures.get(made.document.document_id):
        return row.failed(*failure)
    own = tuple(sorted(chunks[made.document.document_id], key=lambda chunk: chunk.ordinal))
    return replace(row, chunks=own, vectors=tuple(vectors[chunk.chunk_id] for chunk in own))
