"""Assemble: from visible hits to numbered evidence. Everything here is a function of what this reader may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cortex.documents import Anchor
from cortex.evidence import Fragment, Hit
from retrieval.resemble import Resembling, fold, shingles

_SAME = 0.85  # resemblance from which two passages say the same; the threshold ingest uses for documents
_MOST_MERGED = 3  # neighbouring chunks in one fragment: more would bury the passage that was found
_GAP_BYTES = 4  # what may stand between neighbours: line ends that chunking trimmed
_MOST_PER_DOCUMENT = 3  # fragments of one document while others have something to say


@dataclass(slots=True)
class _Passage:
    """One fragment in the making: its hits in document order, best one apart, and the documents that repeat it."""

    best: Hit
    hits: list[Hit]
    duplicate_ids: dict[str, None]


def assemble(hits: Sequence[Hit], k: int) -> tuple[Fragment, ...]:
    """Make at most `k` fragments of the hits, best first and numbered from 1.

    Of passages that say the same the best ranked stays and names the others' documents; neighbouring chunks become one
    fragment; no document takes more than its share while others wait.
    """
    passages = _merge_neighbours(_collapse(hits))
    return tuple(_number(passage, number) for number, passage in enumerate(_spread(passages, k), start=1))


def _collapse(hits: Sequence[Hit]) -> list[_Passage]:
    """Fold passages that repeat a better ranked one into it."""
    kept: list[_Passage] = []
    resembling = Resembling(_SAME)
    for hit in hits:
        number = resembling.find_or_add(shingles(fold(hit.text)))
        if number is None:
            kept.append(_Passage(hit, [hit], {}))
        elif hit.document_id != kept[number].best.document_id:
            kept[number].duplicate_ids[hit.document_id] = None
    return kept


def _merge_neighbours(passages: Sequence[_Passage]) -> list[_Passage]:
    """Join each passage, best first, to a better ranked one of the same document that it continues."""
    merged: list[_Passage] = []
    by_document: dict[str, list[_Passage]] = {}
    for passage in passages:
        siblings = by_document.setdefault(passage.best.document_id, [])
        home = next((other for other in siblings if _continues(other, passage)), None)
        if home is None:
            merged.append(passage)
            siblings.append(passage)
        else:
            home.hits = sorted([*home.hits, *passage.hits], key=lambda hit: hit.byte_start)
            home.duplicate_ids |= passage.duplicate_ids
    return merged


def _continues(passage: _Passage, other: _Passage) -> bool:
    if len(passage.hits) >= _MOST_MERGED:
        return False
    return _adjoin(passage.hits[-1], other.hits[0]) or _adjoin(other.hits[-1], passage.hits[0])


def _adjoin(before: Hit, after: Hit) -> bool:
    gap = after.byte_start - before.byte_end
    return (
        after.ordinal == before.ordinal + 1
        and 0 <= gap <= _GAP_BYTES
        and after.anchor.scope == before.anchor.scope
    )


def _spread(passages: Sequence[_Passage], k: int) -> list[_Passage]:
    """Take `k` passages in order, passing over a document that has its share; those fill up what is left."""
    counts: dict[str, int] = {}
    taken: list[_Passage] = []
    waiting: list[_Passage] = []
    for passage in passages:
        document_id = passage.best.document_id
        counts[document_id] = counts.get(document_id, 0) + 1
        (taken if counts[document_id] <= _MOST_PER_DOCUMENT else waiting).append(passage)
    return [*taken, *waiting][:k]


def _number(passage: _Passage, number: int) -> Fragment:
    """Close a passage: the text and anchor of all its hits, the identity of its best."""
    return Fragment(
        fragment_id=passage.best.chunk_id,
        number=number,
        hit=passage.best,
        text="\n\n".join(hit.text for hit in passage.hits),
        anchor=_span([hit.anchor for hit in passage.hits]),
        byte_start=passage.hits[0].byte_start,
        byte_end=passage.hits[-1].byte_end,
        duplicate_ids=tuple(passage.duplicate_ids),
    )


def _span(anchors: Sequence[Anchor]) -> Anchor:
    return replace(
        anchors[0], start=min(anchor.start for anchor in anchors), end=max(anchor.end for anchor in anchors)
    )
