"""Rerank: a cross-encoder reads question and passage together. Runs only if one is configured, on what may be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cortex.errors import Busy, CortexError
from cortex.evidence import Hit
from cortex.ports.query import PassageReranker
from retrieval.run import Run, step


@step("rerank")
async def rerank(
    run: Run, reranker: PassageReranker, text: str, hits: Sequence[Hit], depth: int
) -> list[Hit]:
    """Order the first `depth` hits by the cross-encoder, ties by chunk id; the others keep their order behind them.

    Its score is kept beside those of the lanes. When it fails, the fused order stands and `degraded` says so. Raises Busy when it has too much to do.
    """
    head, tail = hits[:depth], hits[depth:]
    try:
        scores = await reranker.score(text, [_passage(hit) for hit in head])
    except Busy:
        raise  # asked again in a moment, the question gets its order
    except CortexError as error:
        run.degrade("rerank", "rerank.failed", f"The reranker did not answer ({error.error_code}).")
        return list(hits)
    scored = [
        replace(hit, lanes=replace(hit.lanes, rerank_score=float(score)))
        for hit, score in zip(head, scores, strict=True)
    ]
    scored.sort(key=lambda hit: (-(hit.lanes.rerank_score or 0.0), hit.chunk_id))
    return [*scored, *tail]


def _passage(hit: Hit) -> str:
    return "\n".join(filter(None, (hit.title, *hit.heading_path, hit.text)))
