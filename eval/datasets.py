"""Datasets in BEIR form: `corpus.jsonl`, `queries*.jsonl` and `qrels.tsv` (Thakur et al. 2021)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cortex.errors import InputError


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """One query with the graded documents that answer it (empty: unanswerable)."""

    query_id: str
    text: str
    relevant: dict[str, int]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The queries of a set; its corpus stays on disk."""

    name: str
    queries: tuple[JudgedQuery, ...]

    @property
    def judged(self) -> tuple[JudgedQuery, ...]:
        """The queries with at least one relevant document: those that a ranking metric is taken over."""
        return tuple(query for query in self.queries if any(grade > 0 for grade in query.relevant.values()))


def read_dataset(folder: Path) -> Dataset:
    """Read queries and judgements of a folder; the corpus stays on disk for ingest. Raises InputError."""
    query_files = sorted(folder.glob("queries*.jsonl"))
    named = (folder / "corpus.jsonl", folder / "qrels.tsv")
    if not query_files or not all(path.is_file() for path in named):
        raise InputError(
            f"{folder} is no evaluation set",
            code="dataset.invalid",
            hint="it needs corpus.jsonl, queries*.jsonl and qrels.tsv",
        )
    qrels = _read_qrels(folder / "qrels.tsv")
    queries = tuple(
        JudgedQuery(str(row["id"]), str(row["text"]), qrels.get(str(row["id"]), {}))
        for path in query_files
        for row in _read_lines(path)
    )
    return Dataset("/".join(folder.absolute().parts[-2:]), queries)


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    yield json.loads(line)
            except ValueError as error:
                raise InputError(f"{path.name} line {number} is not JSON", code="dataset.invalid") from error


def _read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read `query-id, corpus-id, score` with a header line."""
    qrels: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t")
        next(rows, None)
        for number, row in enumerate(rows, 2):
            if len(row) != 3:
                raise InputError(
                    f"{path.name} line {number} has {len(row)} fields, not 3", code="dataset.invalid"
                )
            qrels.setdefault(row[0], {})[row[1]] = int(float(row[2]))
    return qrels
