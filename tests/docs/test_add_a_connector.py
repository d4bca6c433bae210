"""The page on adding a connector: its code is a connector that passes the contract suite, as it stands there."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

import pytest

import connectors
from connectors.registry import connector_class
from tests.contracts import test_connectors as contract
from tests.docs.documents import ROOT

PAGE = ROOT / "docs" / "howto" / "add-a-connector.md"
_FILE = re.compile(r"^\*\*([\w./-]+)\*\*\n\n```\w+\n(.*?)^```", re.M | re.S)
CHECKS = [
    (name, check)
    for name, check in inspect.getmembers(contract, inspect.isfunction)
    if name.startswith("test_") and "headers" not in inspect.signature(check).parameters
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[contract.Recorded]:
    """Write the page's files into a tree of their own, where the registry finds the connector by its name."""
    root = tmp_path_factory.mktemp("page")
    for name, text in _FILE.findall(PAGE.read_text(encoding="utf-8")):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connectors, "__path__", [*connectors.__path__, str(root / "connectors")])
        yield contract.load("cards", connector_class("cards"), root / "tests" / "fixtures" / "cards")
    sys.modules.pop("connectors.cards", None)


@pytest.mark.parametrize("check", [check for _, check in CHECKS], ids=[name for name, _ in CHECKS])
def test_the_page_s_connector_passes_the_contract(written: contract.Recorded, check: object) -> None:
    """Every check of the suite holds for the code of the page on the recording of the page."""
    assert callable(check)
    check(recorded=written)


def test_its_pushes_are_refused(written: contract.Recorded) -> None:
    """The check with headers holds too."""
    contract.test_a_push_that_is_not_signed_yields_nothing(written, {})


def test_the_page_counts_the_checks() -> None:
    """The number of tests that the page promises is what the suite runs."""
    assert len(CHECKS) + 2 == 12
