"""The arithmetic of the query bench: percentiles, ratios, the budget, the bounds, and the shape of what it prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from eval.crowd import CrowdRound, crowd_document
from eval.display import print_query
from eval.first_token import FirstToken, added_ms, first_token_document
from eval.query_rounds import (
    Timed,
    budget_ms,
    largest,
    percentile,
    ratio,
    retrieval_document,
    stages_document,
    targets,
)

STAGES = {"permit": 3.0, "embed": 11.0, "search": 9.0, "recheck": 15.0, "total": 40.0}
ONE = Timed(
    http=52.0,
    empty=6.0,
    embed=10.0,
    hybrid=8.0,
    check=14.0,
    plain_hybrid=7.0,
    engine=5.0,
    plain_check=12.0,
    stages=STAGES,
    is_found=True,
)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 3.0), (0.95, 5.0), (0.2, 1.0), (0.21, 2.0), (1.0, 5.0), (0.0, 1.0)]
)
def test_percentiles_are_values_that_were_measured(share: float, expected: float) -> None:
    """Nearest rank: the smallest value that at least this share of all does not exceed, in any order."""
    assert percentile([4.0, 1.0, 5.0, 3.0, 2.0], share) == expected


def test_the_ratio_allows_raw_parts_and_so_many_empty_routes() -> None:
    """52 ms over HTTP, 32 ms raw, 6 ms an empty route: 52/44 with two of them, 52/62 with five."""
    assert ratio([ONE] * 3, 2) == pytest.approx(52 / 44)
    assert ratio([ONE] * 3, 5) == pytest.approx(52 / 62)


def test_a_round_counts_by_its_medians_and_rounds_by_theirs() -> None:
    """One slow question moves no median, and one slow round none of the figures."""
    slow = replace(ONE, http=900.0, check=200.0, is_found=False)
    document = retrieval_document([[ONE, ONE, slow], [slow, slow, slow], [ONE, ONE, ONE]], "fused")
    assert document["http_ms"] == {"p50": 52.0, "p95": 900.0}
    assert document["raw_ms"]["sum"]["p50"] == 32.0
    assert document["raw_ms"]["check"]["p50"] == 14.0
    assert document["ratio"] == {"median": 1.182, "all": [1.182, 3.913, 1.182]}
    assert document["hybrid"]["of_plain_call"] == pytest.approx(8 / 7, abs=0.001)
    assert document["hybrid"]["of_engine"] == 1.6
    assert document["check"]["of_plain_call"] == pytest.approx(14 / 12, abs=0.001)
    assert (document["found"], document["n_searches"]) == (pytest.approx(5 / 9, abs=0.001), 9)


def test_the_staged_placement_may_cost_five_empty_routes() -> None:
    """Its deployments call one another."""
    assert retrieval_document([[ONE]], "staged")["ratio"]["median"] == pytest.approx(52 / 62, abs=0.001)


def test_the_budget_is_the_one_of_the_query_path() -> None:
    """Read from its table: every step that a search times, and the whole."""
    budget = budget_ms()
    assert set(budget) == {
        "permit", "understand", "embed", "search", "recheck", "rerank", "assemble", "support", "total",
    }  # fmt: skip
    assert budget["embed"] == (20, 120, 250)
    assert budget["total"] == (105, 400, 800)
    assert sum(half for name, (half, _, _) in budget.items() if name not in ("total", "rerank")) < 105


def test_steps_stand_beside_their_budget() -> None:
    """A step that did not run is left out; one that ran in some of the searches counts there."""
    document = stages_document([STAGES, {**STAGES, "embed": 13.0, "rerank": 50.0}])
    assert document["embed"] == {"p50": 11.0, "p95": 13.0, "budget_p50": 20.0, "budget_p95": 120.0}
    assert document["rerank"]["p50"] == 50.0
    assert "assemble" not in document


def test_the_largest_parts_come_first() -> None:
    """Three of them, by what they took."""
    assert largest({"a": 1.0, "b": 3.0, "c": 2.0, "d": 0.5}) == ["b", "c", "a"]


def test_a_crowd_costs_what_its_parts_used() -> None:
    """Processor seconds over requests, the clients' own apart; the median of rounds, the largest named."""
    cpu_s = {"qdrant": 0.4, "replica query": 1.0, "spicedb": 0.6, "postgres": 0.2, "clients": 0.3}
    one = CrowdRound([100.0] * 20, [STAGES] * 20, 2.0, cpu_s)
    slow = CrowdRound([300.0] * 20, [STAGES] * 20, 6.0, {name: 3 * used for name, used in cpu_s.items()})
    document = crowd_document([one, slow, one])
    assert document["per_second"] == 10.0
    assert document["p95_ms"] == 100.0
    assert document["cpu_ms_per_request"] == {
        "sum": 110.0, "replica query": 50.0, "spicedb": 30.0, "qdrant": 20.0, "postgres": 10.0,
    }  # fmt: skip
    assert document["clients_cpu_ms_per_request"] == 15.0
    assert document["largest"] == {
        "processes": ["replica query", "spicedb", "qdrant"],
        "steps": ["recheck", "embed", "search"],
    }


def test_a_first_token_is_charged_without_retrieval_and_model() -> None:
    """90 ms after the question, of which 30 were retrieval and 51 the model's: 9 are Cortex' own."""
    one = [FirstToken(90.0, 30.0, 51.0), FirstToken(95.0, 30.0, 60.0), FirstToken(92.0, 31.0, 50.0)]
    assert added_ms(one) == [9.0, 14.0, 10.0]
    document = first_token_document([one, one])
    assert document["added_ms"] == {"p50": 10.0, "p95": 14.0}
    assert (document["streamed_p50_ms"], document["model_p50_ms"], document["n_streams"]) == (92.0, 51.0, 6)


def measured(added: float = 10.0, lost: int = 0, growth: float = 1.01) -> dict[str, Any]:
    """What one placement's measurement states, in small."""
    return {
        "retrieval": retrieval_document([[ONE]], "fused"),
        "eight_clients": crowd_document([CrowdRound([1.0], [STAGES], 1.0, {"qdrant": 1.0})]),
        "first_token": first_token_document([[FirstToken(added + 80.0, 30.0, 50.0)]]),
        "streams": {"n": 200, "n_whole": 200 - lost, "n_tokens_lost": lost},
        "drops": {"n": 10, "growth": growth, "n_open_after": 0, "n_in_flight_after": 0},
    }


def met(document: Mapping[str, Any], placement: Any = "fused") -> dict[str, bool]:
    return {target.name: target.is_met for target in targets({placement: document})}


def test_bounds_can_be_missed() -> None:
    """A figure over its bound is a miss, each by itself."""
    good = met(measured())
    assert not good.pop("search over HTTP, of raw parts and empty routes")  # 1.18
    assert not good.pop("hybrid query, of the engine's own time")  # 1.6
    assert all(good.values())
    assert not met(measured(added=15.1))["first token, added ms"]
    assert met(measured(added=15.1), "staged")["first token, added ms"]
    lossy = met(measured(lost=1))
    assert not lossy["streams, tokens lost"] and not lossy["streams, not whole"]
    assert not met(measured(growth=1.06))["dropped clients, memory of the replica, of before"]


def test_what_was_not_measured_has_no_bound() -> None:
    """Without streams and dropped clients, nothing is said of them."""
    document = {name: part for name, part in measured().items() if name not in ("streams", "drops")}
    assert not [name for name in met(document) if "streams" in name or "dropped" in name]


def test_the_table_reads_well(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A column per placement, and every bound with its verdict."""
    monkeypatch.setenv("COLUMNS", "160")
    both = {"fused": measured(), "staged": {**measured(), "streams": {}, "drops": {}}}
    del both["staged"]["streams"], both["staged"]["drops"]
    held = [
        {"name": t.name, "placement": t.placement, "value": t.value, "at_most": t.at_most, "is_met": t.is_met}
        for t in targets({"fused": both["fused"], "staged": both["staged"]})
    ]
    print_query({"n_chunks": 10_000, "rounds": 5, "placements": both, "targets": held})
    printed = capsys.readouterr().out
    assert "fused" in printed and "staged" in printed
    assert "52.0 / 52.0 ms" in printed
    assert "200 of 200 whole, 0 tokens lost" in printed
    assert "MISSED" in printed and "ok" in printed
