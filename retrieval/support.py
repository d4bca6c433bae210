"""Support: how well the evidence supports an answer at all, so that Cortex can say that it does not know.

Two features, both from the lanes themselves and never from the fused score (a rank has a first place whether or not
anything fits): the best cosine, and the share of the question's terms that one passage contains, terms weighted by
their rarity among the visible hits. A logistic model turns them into a probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cortex.evidence import Hit, Support
from retrieval.wording import Wording

_N_HITS = 10  # rarity is counted among these


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model: probability = 1 / (1 + exp(-(bias + cosine * top_cosine + terms * term_share)))."""

    bias: float
    cosine: float
    terms: float

    def probability(self, top_cosine: float, term_share: float) -> float:
        """Return the calibrated probability that the evidence answers the question."""
        return 1 / (1 + math.exp(-(self.bias + self.cosine * top_cosine + self.terms * term_share)))


# Fitted by `python -m eval.calibrate_support` with all-MiniLM-L6-v2 int8, which says on what, and judges each half of the
# questions by constants of the other: WITH_COSINE has AUROC .87 on clapnq's near misses and .90-.92 on xquad's, WORDS_ALONE
# .70-.73 and .91, PAIRS_ALONE .96-.97 on cmrc2018's.
WITH_COSINE = Calibration(bias=-7.3, cosine=9.3, terms=3.5)
WORDS_ALONE = Calibration(bias=-2.5, cosine=0.0, terms=4.5)
PAIRS_ALONE = Calibration(bias=-5.0, cosine=0.0, terms=20.9)  # scripts matched by pairs of characters


def weigh_support(wording: Wording, hits: Sequence[Hit], abstain_below: float) -> Support:
    """Weigh how well the hits support an answer; without hits there is none."""
    if not hits:
        return Support(None, 0.0, 0.0, is_sufficient=False)
    top_cosine, term_share = read_features(wording, hits)
    probability = choose_calibration(wording, top_cosine).probability(top_cosine or 0.0, term_share)
    return Support(top_cosine, term_share, probability, is_sufficient=probability >= abstain_below)


def read_features(wording: Wording, hits: Sequence[Hit]) -> tuple[float | None, float]:
    """Return the best cosine (None when the dense lane did not run) and the best share of terms of some hits."""
    cosines = [hit.lanes.dense_score for hit in hits if hit.lanes.dense_score is not None]
    return max(cosines, default=None), max(wording.shares(hits[:_N_HITS]))


def choose_calibration(wording: Wording, top_cosine: float | None) -> Calibration:
    """Choose the model for what is known: with a cosine, or by words or character pairs alone."""
    if top_cosine is not None:
        return WITH_COSINE
    return PAIRS_ALONE if wording.is_unspaced else WORDS_ALONE
