"""`cortex bench query`, small, on real engines. `-m slow`: it starts a whole Cortex of its own."""

from __future__ import annotations

from typing import Any

import pytest

from eval.bench_query import QueryPlan, measure_query
from eval.query_rounds import budget_ms

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """What a small run in the fused placement states."""
    return measure_query(QueryPlan(["fused"], 1, 16, 200, 4, 20), lambda *_: None)


def test_everything_is_measured(document: dict[str, Any]) -> None:
    """Each part took time, the parts add up, and what a search takes in HTTP is more than any of them."""
    retrieval = document["placements"]["fused"]["retrieval"]
    raw = retrieval["raw_ms"]
    assert all(raw[part]["p50"] > 0 for part in ("embed", "hybrid", "check"))
    assert retrieval["hybrid"]["engine_ms"]["p50"] < retrieval["hybrid"]["plain_call_ms"]["p50"]
    assert retrieval["check"]["plain_call_ms"]["p50"] > 0
    assert 0 < retrieval["empty_route_ms"]["p50"] < retrieval["http_ms"]["p50"]
    assert set(retrieval["stages_ms"]) == set(budget_ms()) - {"rerank"}


def test_people_find_their_notes(document: dict[str, Any]) -> None:
    """A bench of searches that find nothing would measure nothing."""
    fused = document["placements"]["fused"]
    assert fused["retrieval"]["found"] > 0.9
    assert fused["profiles_each"] > 1
    assert fused["n_answerable"] > 8


def test_processor_time_is_told_by_part(document: dict[str, Any]) -> None:
    """Every engine that a search passes has used some; the replica and the proxy are told apart from Ray's rest."""
    parts = document["placements"]["fused"]["eight_clients"]["cpu_ms_per_request"]
    assert {"qdrant", "spicedb", "postgres", "replica query", "proxy"} <= set(parts)


def test_streams_are_whole_and_nothing_stays(document: dict[str, Any]) -> None:
    """Streams, clients who left, and what was charged to the first token."""
    fused = document["placements"]["fused"]
    assert (fused["streams"]["n_whole"], fused["streams"]["n_tokens_lost"]) == (4, 0)
    assert (fused["drops"]["n_open_after"], fused["drops"]["n_in_flight_after"]) == (0, 0)
    assert sum(fused["drops"]["outcomes"].values()) == 20
    assert fused["first_token"]["added_ms"]["p50"] > 0
