"""The arithmetic of `cortex bench query`: what questions took, round by round, and the figures that are made of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from retrieval import path

Placement = Literal["fused", "staged"]
PLACEMENTS: tuple[Placement, ...] = ("fused", "staged")
# How many empty routes of Serve a search over HTTP may cost beside its raw parts: one deployment or a row of them.
ROUTES: Mapping[Placement, int] = {"fused": 2, "staged": 5}
MOST_RATIO = 1.0
MOST_OF_ENGINE = 1.3
MOST_FIRST_TOKEN_MS: Mapping[Placement, float] = {"fused": 15.0, "staged": 40.0}
MOST_GROWTH = 1.05
_BUDGET = re.compile(r"^ {4}(?:the )?(\w+) .*?(\d+) +(\d+) +(\d+)$", re.MULTILINE)
_TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Timed:
    """What one question took in one round, in milliseconds.

    `http`: the search over HTTP, by `stages` as the response told them; `empty`: a route that answers nothing. `embed`,
    `hybrid` and `check`: the raw parts, which are the adapters' own calls in this process; `plain_hybrid` and `plain_check`:
    the same bytes sent to the engines without adapters; `engine`: what the index itself says it took.
    """

    http: float
    empty: float
    embed: float
    hybrid: float
    check: float
    plain_hybrid: float
    engine: float
    plain_check: float
    stages: Mapping[str, float]
    is_found: bool

    @property
    def raw(self) -> float:
        """The raw parts together."""
        return self.embed + self.hybrid + self.check


Round = Sequence[Timed]


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that at least this share of all values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def p50(values: Iterable[float]) -> float:
    """Return the median, one of the values."""
    return percentile(values, 0.5)


def ratio(one: Round, n_routes: int) -> float:
    """Compare the search over HTTP with its raw parts and so many empty routes."""
    allowed_ms = p50(_values(one, "raw")) + n_routes * p50(_values(one, "empty"))
    return p50(_values(one, "http")) / allowed_ms


def retrieval_document(rounds: Sequence[Round], placement: Placement) -> dict[str, Any]:
    """State what one client's searches took, beside their raw parts and the engines."""
    n_routes = ROUTES[placement]
    ratios = [round(ratio(one, n_routes), 3) for one in rounds]
    return {
        "http_ms": _took(rounds, "http"),
        "raw_ms": {
            "sum": _took(rounds, "raw"),
            **{part: _took(rounds, part) for part in ("embed", "hybrid", "check")},
        },
        "empty_route_ms": _took(rounds, "empty"),
        "n_routes": n_routes,
        "ratio": {"median": round(median(ratios), 3), "all": ratios},
        "hybrid": {
            "plain_call_ms": _took(rounds, "plain_hybrid"),
            "engine_ms": _took(rounds, "engine"),
            "of_plain_call": _compared(rounds, "hybrid", "plain_hybrid"),
            "of_engine": _compared(rounds, "hybrid", "engine"),
        },
        "check": {
            "plain_call_ms": _took(rounds, "plain_check"),
            "of_plain_call": _compared(rounds, "check", "plain_check"),
        },
        "stages_ms": stages_document([timed.stages for one in rounds for timed in one]),
        "found": round(sum(timed.is_found for one in rounds for timed in one) / sum(map(len, rounds)), 3),
        "n_searches": sum(map(len, rounds)),
    }


def _values(one: Round, name: str) -> list[float]:
    return [getattr(timed, name) for timed in one]


def _took(rounds: Sequence[Round], name: str) -> dict[str, float]:
    """State a figure's percentiles, each the median over rounds."""
    halves = [p50(_values(one, name)) for one in rounds]
    most = [percentile(_values(one, name), 0.95) for one in rounds]
    return {"p50": round(median(halves), 2), "p95": round(median(most), 2)}


def _compared(rounds: Sequence[Round], name: str, other: str) -> float:
    """Compare the medians of two figures, round by round."""
    return round(median(p50(_values(one, name)) / p50(_values(one, other)) for one in rounds), 3)


def budget_ms() -> dict[str, tuple[float, float, float]]:
    """Read the budget from where it is written, at the top of the query path: p50, p95 and p99 of each step."""
    found = {
        name: (float(first), float(second), float(third))
        for name, first, second, third in _BUDGET.findall(path.__doc__ or "")
    }
    found[_TOTAL] = found.pop("whole")
    return found


def stages_document(timings: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """State what each step took, beside its budget."""
    document = {}
    for name, (half, most, _) in budget_ms().items():
        if took := [each[name] for each in timings if name in each]:
            document[name] = {
                "p50": round(p50(took), 2),
                "p95": round(percentile(took, 0.95), 2),
                "budget_p50": half,
                "budget_p95": most,
            }
    return document


def largest(parts: Mapping[str, float], n: int = 3) -> list[str]:
    """Name the largest parts, largest first."""
    return sorted(parts, key=lambda name: -parts[name])[:n]


@dataclass(frozen=True, slots=True)
class Target:
    """One bound that a figure is held against."""

    name: str
    placement: str
    value: float
    at_most: float

    @property
    def is_met(self) -> bool:
        """Whether it holds."""
        return self.value <= self.at_most


def targets(measured: Mapping[Placement, Mapping[str, Any]]) -> list[Target]:
    """Hold what was measured against what was set; what was not measured has no target."""
    return [target for placement, document in measured.items() for target in _targets(placement, document)]


def _targets(placement: Placement, document: Mapping[str, Any]) -> Iterable[Target]:
    retrieval = document["retrieval"]
    figures = [
        ("search over HTTP, of raw parts and empty routes", retrieval["ratio"]["median"], MOST_RATIO),
        ("hybrid query, of the plain call", retrieval["hybrid"]["of_plain_call"], MOST_OF_ENGINE),
        ("hybrid query, of the engine's own time", retrieval["hybrid"]["of_engine"], MOST_OF_ENGINE),
        ("bulk check, of the plain call", retrieval["check"]["of_plain_call"], MOST_OF_ENGINE),
        ("first token, added ms", document["first_token"]["added_ms"]["p50"], MOST_FIRST_TOKEN_MS[placement]),
    ]
    if streams := document.get("streams"):
        figures.append(("streams, tokens lost", streams["n_tokens_lost"], 0))
        figures.append(("streams, not whole", streams["n"] - streams["n_whole"], 0))
    if drops := document.get("drops"):
        figures.append(("dropped clients, memory of the replica, of before", drops["growth"], MOST_GROWTH))
        figures.append(("dropped clients, requests left at the model", drops["n_open_after"], 0))
        figures.append(("dropped clients, questions left in flight", drops["n_in_flight_after"], 0))
    return (Target(name, placement, value, at_most) for name, value, at_most in figures)
