"""Where links lead, by comparing every edge with every name: the rule as plainly as it can be said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from cortex.documents import Document
from cortex.edges import OPEN_SPACES, Edge, EdgeState, ResolvedEdge


def resolve(documents: Iterable[Document]) -> list[ResolvedEdge]:
    """Resolve all edges among the shown documents of one source."""
    shown = sorted(documents, key=lambda document: document.external_id)
    return [_resolved(edge, document, shown) for document in shown for edge in document.edges]


def selected(
    edges: list[ResolvedEdge], states: Collection[EdgeState], limit: int | None
) -> list[ResolvedEdge]:
    return [edge for edge in edges if not states or edge.state in states][:limit]


def counted(edges: list[ResolvedEdge]) -> dict[EdgeState, int]:
    return dict(Counter(edge.state for edge in edges))


def _resolved(edge: Edge, document: Document, shown: list[Document]) -> ResolvedEdge:
    fitting = [
        ((name.rank, _folder(document) != _folder(other), other.external_id.count("/")), other.external_id)
        for other in shown
        for name in other.names
        if (name.space, name.key) == (edge.space, edge.key)
    ]
    best = {external_id for place, external_id in fitting if place == min(fitting)[0]}
    if len(best) == 1:
        return ResolvedEdge(edge, document.external_id, EdgeState.RESOLVED, *best)
    missing = EdgeState.EXTERNAL if edge.space in OPEN_SPACES else EdgeState.DANGLING
    return ResolvedEdge(edge, document.external_id, EdgeState.AMBIGUOUS if best else missing)


def _folder(document: Document) -> str:
    return document.external_id.rpartition("/")[0]
