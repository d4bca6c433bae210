"""Follow-up questions, made from the titles and headings of the evidence without a model."""

from __future__ import annotations

from collections.abc import Sequence

from cortex.evidence import Fragment
from retrieval.resemble import fold

_MOST = 3


def follow_ups(question: str, fragments: Sequence[Fragment], cited: frozenset[int]) -> tuple[str, ...]:
    """Propose up to three further questions from titles and headings of the evidence, uncited fragments first."""
    asked = fold(question)
    proposals: dict[str, None] = {}
    for fragment in sorted(fragments, key=lambda each: each.number in cited):
        heading = fragment.hit.heading_path[-1] if fragment.hit.heading_path else ""
        title = fragment.hit.title
        if heading and fold(heading) != fold(title) and fold(heading) not in asked:
            proposals[f"What does “{title}” say about “{heading}”?"] = None
        elif title and fold(title) not in asked:
            proposals[f"What else is in “{title}”?"] = None
    return tuple(proposals)[:_MOST]
