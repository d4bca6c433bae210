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

_N_HITS = 20  # rarity is counted among these


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model: probability = 1 / (1 + exp(-(bias + cosine * top_cosine + terms * term_share)))."""

    bias: float
    cosine: float
    terms: float

    def probability(self, top_cosine: float, term_share: float) -> float:
        """Return the calibrated probability that the evidence answers the question."""
        return 1 / (1 + math.exp(-(self.bias + self.cosine * top_cosine + self.terms * term_share)))


WITH_COSINE = Calibration(bias=-5.0, cosine=7.0, terms=3.0)
TERMS_ALONE = Calibration(bias=-3.0, cosine=0.0, terms=6.0)


def weigh_support(wording: Wording, hits: Sequence[Hit], abstain_below: float) -> Support:
    """Weigh how well the hits support an answer; without hits there is none."""
    if not hits:
        return Support(None, 0.0, 0.0, is_sufficient=False)
    cosines = [hit.lanes.dense_score for hit in hits if hit.lanes.dense_score is not None]
    share = max(wording.shares(hits[:_N_HITS]))
    top = max(cosines, default=None)
    probability = TERMS_ALONE.probability(0.0, share) if top is None else WITH_COSINE.probability(top, share)
    return Support(top, share, probability, is_sufficient=probability >= abstain_below)
