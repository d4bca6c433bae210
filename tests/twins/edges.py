"""Where links lead among the documents that are shown: the rule as plainly as it can be said."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from cortex.documents import Document
from cortex.edges import OPEN_SPACES, Edge, EdgeSpace, EdgeState, ResolvedEdge

# The documents that have a name, with its rank.
Found = dict[tuple[EdgeSpace, str], list[tuple[int, Document]]]


def resolve(documents: Iterable[Document]) -> list[ResolvedEdge]:
    """Resolve all edges among the shown documents of one source."""
    shown = sorted(documents, key=lambda document: document.external_id)
    found: Found = defaultdict(list)
    for document in shown:
        for name in document.names:
            found[name.space, name.key].append((name.rank, document))
    return [_resolved(edge, document, found) for document in shown for edge in document.edges]


def selected(
    edges: list[ResolvedEdge], states: Collection[EdgeState], limit: int | None
) -> list[ResolvedEdge]:
    return [edge for edge in edges if not states or edge.state in states][:limit]


def counted(edges: list[ResolvedEdge]) -> dict[EdgeState, int]:
    return dict(Counter(edge.state for edge in edges))


def _resolved(edge: Edge, document: Document, found: Found) -> ResolvedEdge:
    fitting = [
        ((rank, _folder(document) != _folder(other), other.external_id.count("/")), other.external_id)
        for rank, other in found.get((edge.space, edge.key), ())
    ]
    best = {external_id for place, external_id in fitting if place == min(fitting)[0]}
    if len(best) == 1:
        return ResolvedEdge(edge, document.external_id, EdgeState.RESOLVED, *best)
    missing = EdgeState.EXTERNAL if edge.space in OPEN_SPACES else EdgeState.DANGLING
    return ResolvedEdge(edge, document.external_id, EdgeState.AMBIGUOUS if best else missing)


def _folder(document: Document) -> str:
    return document.external_id.rpartition("/")[0]
