"""Extract: the answer without a model: the sentences of the evidence that answer best, each cited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cortex.errors import CortexError
from cortex.evidence import AnswerEvent, Fragment
from cortex.ports.models import LexicalEncoder
from cortex.ports.query import QuestionEmbedder
from retrieval.cite import cite
from retrieval.draft import Draft
from retrieval.resemble import fold, resemblance, shingles
from retrieval.run import Run, step
from retrieval.sentences import sentences
from retrieval.wording import rarities, term_share

_N_FRAGMENTS = 5  # evidence further down rarely holds the answer
_N_EMBEDDED = (
    12  # sentences embedded at most; on xquad/en 24 find no more answers than 12 (.83 in the first sentence)
)
_MOST_SENTENCES = 4
_NEAR_BEST = 0.8  # a further sentence scores at least this share of the best
_LONGEST = 400  # characters of one sentence; longer ones are code or tables and are clipped
_TERM_WEIGHT = 0.7  # against a cosine of weight 1: flat between 0.7 and 1.5 on xquad/en, 0 loses .09
_PLACE_WEIGHT = 0.05  # per place in the evidence: between equal sentences the better ranked passage wins
_ASKED_AGAIN = 0.3  # a sentence that asks does not answer

BROKEN_OFF = "\n\nThe model broke off here. From the evidence: "


@dataclass(frozen=True, slots=True)
class Extract:
    """One sentence of the evidence and the fragment that it stands in."""

    fragment: Fragment
    sentence: str


@step("extract")
async def extract(
    run: Run,
    embedder: QuestionEmbedder | None,
    lexical: LexicalEncoder,
    text: str,
    fragments: Sequence[Fragment],
) -> list[Extract]:
    """Pick one to four sentences, best first; at least one when any fragment has text.

    Scored by the cosine to the question (when an embedder that knows the script is given) and by the terms shared.
    """
    found = _sentences(fragments)
    if not found:
        return []
    prior = _prior(lexical, text, found)
    short = sorted(range(len(found)), key=lambda at: -prior[at])[:_N_EMBEDDED]
    cosines = await _cosines(run, embedder, text, [found[at] for at in short])
    scores = {at: float(prior[at] + cosine) for at, cosine in zip(short, cosines, strict=True)}
    order = sorted(short, key=lambda at: -scores[at])
    best = scores[order[0]]
    floor = best - (1 - _NEAR_BEST) * abs(best)
    return _distinct([found[at] for at in order if scores[at] >= floor])


async def quote(
    run: Run,
    embedder: QuestionEmbedder | None,
    lexical: LexicalEncoder,
    draft: Draft,
    fragments: Sequence[Fragment],
) -> list[AnswerEvent]:
    """Write the extracted answer into the draft; behind an answer that broke off, say that it did.

    Evidence without a single word to quote is an abstention.
    """
    extracts = await extract(run, embedder, lexical, draft.question, fragments)
    if not extracts and not draft.text:
        return draft.abstain()
    events = [draft.say(BROKEN_OFF)] if draft.text and extracts else []
    for each in extracts:
        blank = " " if draft.text and not draft.text.endswith(" ") else ""
        events.append(draft.say(f"{blank}{each.sentence} [{each.fragment.number}]"))
        events.append(draft.cite(cite(each.fragment, each.sentence)))
    return [*events, draft.done("extractive")]


def _sentences(fragments: Sequence[Fragment]) -> list[Extract]:
    return [
        Extract(fragment, _clip(sentence))
        for fragment in fragments[:_N_FRAGMENTS]
        for sentence in sentences(fragment.text)
        if any(letter.isalnum() for letter in sentence)
    ]


def _prior(lexical: LexicalEncoder, text: str, found: Sequence[Extract]) -> NDArray[np.float32]:
    """Score sentences by shared terms and by the place of their fragment: float32[n]."""
    listed = [lexical.distinct_terms(each.sentence) for each in found]
    rarity = rarities(lexical.terms(text), listed)
    shares = np.array([term_share(rarity, terms) for terms in listed], dtype=np.float32)
    places = np.array([each.fragment.number - 1 for each in found], dtype=np.float32)
    asks = np.array([each.sentence.rstrip().endswith(("?", "？")) for each in found], dtype=np.float32)
    prior: NDArray[np.float32] = shares * _TERM_WEIGHT - places * _PLACE_WEIGHT - asks * _ASKED_AGAIN
    return prior


async def _cosines(
    run: Run, embedder: QuestionEmbedder | None, text: str, found: Sequence[Extract]
) -> NDArray[np.float32]:
    if embedder is None:
        return np.zeros(len(found), dtype=np.float32)
    try:
        asked = await embedder.embed_queries([text])
        rows = await embedder.embed_documents([each.sentence for each in found])
    except CortexError as error:
        run.degrade(
            "extract", "embedder.failed", f"Sentences were picked by words alone ({error.error_code})."
        )
        return np.zeros(len(found), dtype=np.float32)
    cosines: NDArray[np.float32] = (rows @ asked.T)[:, 0]
    return cosines


def _distinct(ranked: Sequence[Extract]) -> list[Extract]:
    """Drop sentences that say again what a better one says."""
    kept: list[Extract] = []
    marks: list[frozenset[int]] = []
    for each in ranked:
        mark = shingles(fold(each.sentence))
        if all(resemblance(mark, other) < 0.5 for other in marks):
            kept.append(each)
            marks.append(mark)
    return kept[:_MOST_SENTENCES]


def _clip(sentence: str) -> str:
    if len(sentence) <= _LONGEST:
        return sentence
    return sentence[:_LONGEST].rsplit(" ", 1)[0].rstrip() + " …"
