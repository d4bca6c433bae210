"""The time to the first token: what Cortex adds to the model's own and to the retrieval before it.

A question is streamed over HTTP to its end; its response tells what the retrieval took. In turns with it the model is
asked by a plain client, which tells what its first token takes without Cortex. What is left is added by Cortex: HTTP,
Serve, the caller's token, the evidence written and sent, the prompt, the way to the model and back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from cortex.errors import Corrupt
from cortex.settings import Settings
from eval.plain_http import Client
from eval.query_rounds import p50, percentile
from eval.raw_parts import Prepared
from eval.upstream import Control, Pace

ANSWER = "/v1/answer"
_CHAT = "/v1/chat/completions"
_PACE = Pace(first_s=0.05, pause_s=0.005, n_words=8)


@dataclass(frozen=True, slots=True)
class FirstToken:
    """One streamed answer in milliseconds: to its first token, its retrieval, and the model's own first token beside it."""

    streamed: float
    retrieval: float
    model: float


def first_token_round(
    settings: Settings, upstream: Control, questions: Sequence[Prepared]
) -> list[FirstToken]:
    """Time every question once through Cortex and once at the model, in turns."""
    upstream.set_pace(_PACE)
    timed = []
    with Client(settings.http_url) as cortex, Client(upstream.url) as model:
        for prepared in questions:
            streamed, retrieval = _streamed(cortex, prepared)
            timed.append(FirstToken(streamed, retrieval, _of_model(model)))
    return timed


def _streamed(cortex: Client, prepared: Prepared) -> tuple[float, float]:
    """Read a stream to its end; returns when its first token came and what its retrieval took."""
    body = json.dumps({"query": prepared.asked.text, "stream": True}).encode()
    name, retrieval, first = b"", None, None
    for at_ms, line in cortex.lines(ANSWER, body, prepared.headers):
        field, _, value = line.rstrip().partition(b": ")
        if field == b"event":
            name = value
        elif field == b"data" and name == b"evidence":
            retrieval = json.loads(value)["timings_ms"]["total"]
        elif field == b"data" and name == b"token" and first is None:
            first = at_ms
    if first is None or retrieval is None or name != b"done":
        raise Corrupt(f"a streamed answer ended with {name.decode()!r}", code="scratch.failed")
    return first, retrieval


def _of_model(model: Client) -> float:
    body = json.dumps({"model": "synthetic", "messages": [], "stream": True}).encode()
    arrived = [at_ms for at_ms, line in model.lines(_CHAT, body, {}) if line.startswith(b"data: {")]
    return arrived[0]


def added_ms(one: Iterable[FirstToken]) -> list[float]:
    """Return what Cortex added to each; the model's own first token is taken at its median of the round."""
    timed = list(one)
    model_ms = p50(each.model for each in timed)
    return [each.streamed - each.retrieval - model_ms for each in timed]


def first_token_document(rounds: Sequence[Sequence[FirstToken]]) -> dict[str, Any]:
    """State the medians over rounds."""

    def over(figure: str) -> float:
        return round(median(p50(getattr(each, figure) for each in one) for one in rounds), 2)

    return {
        "streamed_p50_ms": over("streamed"),
        "retrieval_p50_ms": over("retrieval"),
        "model_p50_ms": over("model"),
        "added_ms": {
            word: round(median(percentile(added_ms(one), share) for one in rounds), 2)
            for word, share in (("p50", 0.5), ("p95", 0.95))
        },
        "n_streams": sum(map(len, rounds)),
    }
