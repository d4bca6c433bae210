"""Gates: figures on the frozen corpus that no change may lower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cortex.errors import Misconfigured
from cortex.settings import Settings
from eval.retrieval import evaluate_retrieval

_FOLDER = Path(__file__).parent


class Gate(BaseModel):
    """One line of `gates.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    set: Literal["gate"]
    lane: Literal["plan", "bm25", "dense"]
    metric: str
    at_least: float = Field(gt=0, le=1)  # a bound of 0 could not fail


def read_gates(path: Path = _FOLDER / "gates.yaml") -> list[Gate]:
    """Read the gates; raises Misconfigured when a line cannot be one."""
    try:
        return TypeAdapter(list[Gate]).validate_python(yaml.safe_load(path.read_text()))
    except (yaml.YAMLError, ValidationError) as error:
        raise Misconfigured(f"{path.name} is not a list of gates: {error}", code="gates.invalid") from error


def check_gates(settings: Settings, on_progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Score the gate corpus in the scratch home of `settings` and compare every gate."""
    report = evaluate_retrieval(settings, _FOLDER / "gate", on_progress)
    gates = []
    for gate in read_gates():
        value = report.scores[gate.lane][gate.metric].value
        gates.append(
            {
                "name": f"{gate.set} {gate.lane} {gate.metric}",
                "value": round(value, 4),
                "at_least": gate.at_least,
                "is_passed": value >= gate.at_least,
            }
        )
    return {"gates": gates, "is_passed": all(gate["is_passed"] for gate in gates)}
