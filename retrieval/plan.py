"""The plan: every tuning number of the query path, taken from the settings once."""

from __future__ import annotations

from dataclasses import dataclass

from cortex.settings import Settings

BUILT_IN_MODEL = "all-MiniLM-L6-v2"
ANY_SCRIPT = "any"


@dataclass(frozen=True, slots=True)
class Plan:
    """Tuning numbers as the settings describe them; `embedding_scripts` holds `any` for a multilingual model."""

    lane_limit: int = 100
    fusion_k: int = 10
    weight_dense: float = 1.5
    weight_bm25: float = 1.0
    cosine_floor: float = 0.0
    embedding_scripts: frozenset[str] = frozenset({"latin"})
    recheck_round: int = 100
    rerank_depth: int = 100
    abstain_below: float = 0.35
    llm_timeout_s: float = 60.0

    @classmethod
    def from_settings(cls, settings: Settings) -> Plan:
        """Read the plan from the settings."""
        return cls(
            lane_limit=settings.lane_limit,
            fusion_k=settings.fusion_k,
            weight_dense=settings.weight_dense,
            weight_bm25=settings.weight_bm25,
            cosine_floor=settings.cosine_floor,
            embedding_scripts=_scripts(settings),
            recheck_round=settings.recheck_round,
            rerank_depth=settings.rerank_depth,
            abstain_below=settings.abstain_below,
            llm_timeout_s=settings.llm_timeout_s,
        )


def _scripts(settings: Settings) -> frozenset[str]:
    named = (part.strip().lower() for part in settings.embedding_scripts.split(","))
    scripts = frozenset(filter(None, named))
    fallback = "latin" if settings.embedding_model == BUILT_IN_MODEL else ANY_SCRIPT
    return scripts or frozenset({fallback})
