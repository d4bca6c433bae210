"""Gates are bounds that can fail, on figures that exist."""

from pathlib import Path

import pytest

from cortex.errors import Misconfigured
from eval.gates import read_gates
from eval.retrieval_scores import METRICS


def test_every_gate_names_a_metric_that_is_computed() -> None:
    """A misspelt metric must not pass for want of a figure."""
    gates = read_gates()
    assert gates
    assert {gate.metric for gate in gates} <= set(METRICS)


@pytest.mark.parametrize(
    "line",
    [
        '- {set: gate, lane: plan, metric: "ndcg@10", at_least: 0.0}',
        '- {set: gate, lane: guess, metric: "ndcg@10", at_least: 0.5}',
        "- {set: gate, lane: plan",
    ],
)
def test_a_gate_that_cannot_fail_or_be_read_is_refused(tmp_path: Path, line: str) -> None:
    """A bound of zero, an unknown lane and broken YAML."""
    (tmp_path / "gates.yaml").write_text(line)
    with pytest.raises(Misconfigured):
        read_gates(tmp_path / "gates.yaml")
