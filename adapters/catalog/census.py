"""Counts what the catalog holds, for plans of disk and memory."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries

_SQL = queries("census")


@dataclass(frozen=True, slots=True)
class Census:
    """How much the catalog holds of all tenants: shown documents, chunks (staged ones too), tuples, bytes on disk."""

    n_documents: int = 0
    n_chunks: int = 0
    n_tuples: int = 0
    n_bytes: int = 0


def count(url: str) -> Census:
    """Count; raises Unavailable when the catalog does not answer."""
    with translated(), psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute(_SQL["census"]).fetchone()
    assert row is not None  # one row of four numbers
    return Census(*row)
