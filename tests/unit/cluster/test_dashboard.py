"""The dashboard: sound, asking only for what an ingress exports, and holding steps to the budget that the path states."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import retrieval.path
from tests.unit.serve_apps.test_metrics import exported

DASHBOARD = Path(__file__).resolve().parents[3] / "cluster" / "dashboards" / "objectives.json"


def panels() -> list[dict[str, Any]]:
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_the_dashboard_is_one() -> None:
    """Panels have ids and places of their own, and take their data source from the dashboard's variable."""
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert document["schemaVersion"] >= 36 and document["title"] and document["uid"]
    variables = {each["name"]: each for each in document["templating"]["list"]}
    assert (
        variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    )
    ids = [panel["id"] for panel in document["panels"]]
    assert len(ids) == len(set(ids)) > 8
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert cells and not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    for panel in panels():
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        assert panel["description"], panel["title"]
        names = [target["refId"] for target in panel["targets"]]
        assert names and len(names) == len(set(names)), panel["title"]
    used = {name for text in expressions() for name in re.findall(r"\$\{?(\w+)", text)}
    assert used <= set(variables), used


def test_the_dashboard_asks_for_what_is_exported() -> None:
    """Every metric and every label in every expression is one that an ingress has."""
    known = exported()
    asked = {name for text in expressions() for name in re.findall(r"\b(?:cortex|process)_\w+", text)}
    assert asked and asked <= set(known), asked - set(known)
    for text in expressions():
        for name, labels in re.findall(r"\b((?:cortex|process)_\w+)\{([^}]*)\}", text):
            assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)) <= known[name], text
        grouped = {label.strip() for by in re.findall(r"by \(([^)]*)\)", text) for label in by.split(",")}
        asked_here = {name for name in known if re.search(rf"\b{name}\b", text)}
        assert grouped <= set().union(*(known[name] for name in asked_here)), text
        assert text.count("(") == text.count(")") and text.count("{") == text.count("}"), text


def test_the_dashboard_holds_steps_to_the_budget_of_the_path() -> None:
    """The 95th percentile of each step is divided by what the table in `retrieval/path.py` allows it."""
    table = re.findall(
        r"^    (the whole path|\w+) .*?(\d+) +(\d+) +(\d+)$", retrieval.path.__doc__ or "", re.M
    )
    budget = {name.replace("the whole path", "total"): int(p95) / 1000 for name, _, p95, _ in table}
    assert len(budget) == 9
    divided = {
        step: float(seconds)
        for text in expressions()
        for step, seconds in re.findall(r'step="(\w+)".*\) / ([\d.]+)$', text)
    }
    assert divided == {name: seconds for name, seconds in budget.items() if name != "understand"}
