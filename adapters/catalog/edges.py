"""Edges in the catalog: written with a document's version, and read with where they lead now."""

from __future__ import annotations

from collections.abc import Collection

import psycopg

from adapters.catalog.queries import queries
from cortex.documents import Document
from cortex.edges import Edge, EdgeKind, EdgeSpace, EdgeState, ResolvedEdge

_SQL = queries("edges")


def copy_edges(connection: psycopg.Connection, version_id: int, document: Document) -> None:
    """Store a version's edges and names, in the transaction that stages it."""
    if document.edges:
        with connection.cursor().copy(_SQL["copy_edges"]) as copy:
            for ordinal, edge in enumerate(document.edges):
                looked_up = (edge.kind, edge.space, edge.key)
                head = (version_id, ordinal, document.source_id, *looked_up)
                copy.write_row((*head, edge.target, edge.anchor, edge.byte_start, edge.byte_end))
    if document.names:
        with connection.cursor().copy(_SQL["copy_names"]) as copy:
            for ordinal, name in enumerate(document.names):
                found_by = (name.space, name.key, name.rank, name.byte_start)
                copy.write_row((version_id, ordinal, document.source_id, *found_by))


def count_edges(connection: psycopg.Connection, source_id: str) -> dict[EdgeState, int]:
    """Count a source's edges by state."""
    rows = connection.execute(_SQL["count_edges"], {"source_id": source_id})
    return {EdgeState(state): n_edges for state, n_edges in rows}


def list_edges(
    connection: psycopg.Connection, source_id: str, states: Collection[EdgeState], limit: int | None
) -> list[ResolvedEdge]:
    """List a source's edges in the order of their documents and of their text."""
    values = {"source_id": source_id, "states": [str(state) for state in states] or None, "limit": limit}
    return [
        ResolvedEdge(Edge(EdgeKind(kind), EdgeSpace(space), *written), external_id, EdgeState(state), target)
        for kind, space, *written, external_id, state, target in connection.execute(
            _SQL["list_edges"], values
        )
    ]
