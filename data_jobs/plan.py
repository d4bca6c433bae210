"""Plans disk and memory: what homes of different sizes take, from measured sizes; `cortex doctor` runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from adapters.catalog.census import Census, count
from cortex.console import command, write_document
from cortex.settings import settings
from data_jobs import sizes

STEPS = (10_000, 100_000, 1_000_000)
# From so many documents on, a home says better what its next documents are like than the usual proportions do.
_TELLING_DOCUMENTS = 200


@dataclass(frozen=True, slots=True)
class Part:
    """What one part of a home takes at each step. `engine` is the one that holds it; empty: programs on every machine."""

    name: str
    kind: Literal["disk", "memory"]
    engine: str
    step_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the catalog holds now, and what homes of `steps` chunks take."""

    now: Census
    chunks_per_document: float
    tuples_per_document: float
    steps: tuple[int, ...]
    parts: tuple[Part, ...]


def plan(now: Census, parser_bytes: int, steps: Sequence[int] = STEPS) -> Plan:
    """Plan homes of so many chunks, with the present home's proportions where it is large enough to tell.

    `parser_bytes` is the most that one parser of a load may take.
    """
    is_telling = now.n_documents >= _TELLING_DOCUMENTS
    chunks_per = now.n_chunks / now.n_documents if is_telling else sizes.CHUNKS_PER_DOCUMENT
    tuples_per = now.n_tuples / now.n_documents if is_telling else sizes.TUPLES_PER_DOCUMENT

    def part(name: str, kind: Literal["disk", "memory"], engine: str, size: sizes.Size) -> Part:
        needed = (size.bytes_of(n, n / chunks_per, n / chunks_per * tuples_per) for n in steps)
        return Part(name, kind, engine, tuple(needed))

    parts = (
        part("catalog", "disk", "postgres", sizes.CATALOG),
        part("index", "disk", "qdrant", sizes.INDEX),
        part("index, while it optimizes", "disk", "qdrant", sizes.INDEX),  # it works on a copy
        part("objects", "disk", "objects", sizes.OBJECTS),
        part("index in memory", "memory", "qdrant", sizes.INDEX_MEMORY),
        part("permissions", "memory", "spicedb", sizes.SPICEDB_MEMORY),
        part("catalog and relay", "memory", "postgres", sizes.CATALOG_MEMORY),
        part("Ray and the query path", "memory", "ray", sizes.RAY_MEMORY),
        part("a load's parser, at most", "memory", "ray", sizes.Size(parser_bytes)),
    )
    return Plan(now, round(chunks_per, 2), round(tuples_per, 2), tuple(steps), parts)


@command
def main(as_json: bool = True) -> None:
    """Print the plan of the configured home; one whose catalog does not run counts as empty."""
    given = settings()
    now = count(given.postgres_url) if given.postgres_url else Census()
    write_document(plan(now, given.parse_memory_bytes))


if __name__ == "__main__":
    main(as_json=True)
