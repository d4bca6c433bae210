"""The links of a source in a run's report: how many lead where, and which lead nowhere or to several documents."""

from __future__ import annotations

from dataclasses import dataclass

from cortex.edges import EdgeState
from cortex.ports.ingest import IngestCatalog

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class OpenLink:
    """A link without one target: where it stands (a byte offset in its document), its own words, and its state."""

    path: str
    byte_start: int
    target: str
    state: str


@dataclass(frozen=True, slots=True)
class LinkReport:
    """All links of a source as they lead now; `open` holds the first hundred that are dangling or ambiguous.

    `external` counts tags, URLs and attachments, which lead to no document.
    """

    resolved: int = 0
    dangling: int = 0
    ambiguous: int = 0
    external: int = 0
    open: tuple[OpenLink, ...] = ()


def report_links(catalog: IngestCatalog, source_id: str) -> LinkReport:
    """Report where a source's links lead."""
    counts = catalog.count_edges(source_id)
    states = [state for state in (EdgeState.DANGLING, EdgeState.AMBIGUOUS) if counts.get(state)]
    found = catalog.list_edges(source_id, states, _SHOWN) if states else []
    return LinkReport(
        **{state.value: n_edges for state, n_edges in counts.items()},
        open=tuple(
            OpenLink(one.external_id, one.edge.byte_start, one.edge.target, one.state) for one in found
        ),
    )
