"""The contract of every connector, run on its recorded items in `tests/fixtures/<source type>/`.

`recording.json` holds the connector's `options` (a `root` is relative to the folder), the `ids` it lists in order, the
`failures` it reports, the `unsure` ids whose visibility the source cannot state, and, if anything is left out on
purpose, how many under which code (`skipped`).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.registry import VERBS, connector_class, discover
from cortex.documents import Item, ParsedBody
from cortex.errors import Unauthenticated
from cortex.ids import sha256_hex
from cortex.ports.connectors import Connector, Fetched, FetchFailure, Skipped, SourceConfig

FIXTURES = Path(__file__).parents[1] / "fixtures"
CONNECTORS = discover()


@dataclass(frozen=True, slots=True)
class Recorded:
    """One connector built on its recording."""

    build: Any
    expected: dict[str, Any]

    def listed(self, cursor: str = "") -> list[Fetched]:
        return list(self.build().fetch(cursor))

    def items(self, cursor: str = "") -> list[Item]:
        return [found for found in self.listed(cursor) if isinstance(found, Item)]


@pytest.fixture(params=sorted(CONNECTORS), scope="module")
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """Load the recording of one connector; without one the test fails by the connector's name."""
    name = request.param
    return load(name, CONNECTORS[name], FIXTURES / name)


def load(name: str, kind: type[Connector], folder: Path) -> Recorded:
    """Build a connector's recording from its folder."""
    if not (folder / "recording.json").is_file():
        pytest.fail(f"the connector {name} has no recording: add {folder}/recording.json")
    expected = json.loads((folder / "recording.json").read_text())
    options = dict(expected["options"])
    if "root" in options:
        options["root"] = str(folder / options["root"])
    config = SourceConfig("acme", "source-1", name, f"recorded {name}", options=options)

    def build() -> Connector:
        return kind(config)

    return Recorded(build, expected)


def test_it_has_the_five_verbs_and_its_own_name(recorded: Recorded) -> None:
    """A connector has fetch, normalize, acls, cursor and webhook, and its class is found under its source type."""
    connector = recorded.build()
    assert [verb for verb in VERBS if not callable(getattr(connector, verb, None))] == []
    assert connector_class(connector.source_type) is type(connector)


def test_it_lists_the_recorded_items_in_order(recorded: Recorded) -> None:
    """Fetch lists exactly the recorded items, in the recorded order, and reports the recorded failures."""
    listed = recorded.listed()
    assert [item.external_id for item in listed if isinstance(item, Item)] == recorded.expected["ids"]
    failures = {found.external_id: found.code for found in listed if isinstance(found, FetchFailure)}
    assert failures == recorded.expected["failures"]
    assert all(found.reason for found in listed if isinstance(found, FetchFailure))


def test_what_is_left_out_on_purpose_is_counted(recorded: Recorded) -> None:
    """What the source holds and nobody shall find is no failure: it is counted under a code, with the reason."""
    left_out = [found for found in recorded.listed() if isinstance(found, Skipped)]
    counted: Counter[str] = Counter()
    for kind in left_out:
        counted[kind.code] += kind.n
    assert counted == recorded.expected.get("skipped", {})
    assert all(kind.reason for kind in left_out)


def test_two_fetches_list_the_same(recorded: Recorded) -> None:
    """A second fetch of an unchanged source lists the same items with the same metadata, in the same order."""
    assert recorded.listed() == recorded.listed()


def test_an_item_has_one_content(recorded: Recorded) -> None:
    """An item carries a path, or its content, or states its version and is read by a connector that never listed it."""
    for item in recorded.items():
        if item.path is None and item.content is None:
            assert item.meta["fingerprint"]
            assert recorded.build().read(item, 1_000_000)
        else:
            assert (item.path is None) != (item.content is None)


def test_normalize_is_deterministic(recorded: Recorded) -> None:
    """The same item and body give the same document from two instances, under an id of its own."""
    parsed = ParsedBody(body="Body.", blocks=())
    first, second = recorded.build(), recorded.build()
    documents = [first.normalize(item, parsed, sha256_hex(b"Body.")) for item in recorded.items()]
    again = [second.normalize(item, parsed, sha256_hex(b"Body.")) for item in recorded.items()]
    assert documents == again
    assert len({document.document_id for document in documents}) == len(documents)
    assert [document.external_id for document in documents] == recorded.expected["ids"]


def test_documents_say_where_they_come_from(recorded: Recorded) -> None:
    """Every document carries tenant, source, type and a permalink into the source."""
    connector = recorded.build()
    for item in recorded.items():
        document = connector.normalize(item, ParsedBody(body="", blocks=()), "0" * 64)
        assert (document.tenant_id, document.source_id) == ("acme", "source-1")
        assert document.source_type == connector.source_type
        assert "://" in document.permalink


@given(data=st.data())
def test_a_cursor_neither_loses_nor_repeats(recorded: Recorded, data: st.DataObject) -> None:
    """Fetching in two parts, split anywhere, lists what fetching at once does."""
    items = recorded.items()
    split = data.draw(st.integers(0, len(items)))
    rest = recorded.items(recorded.build().cursor(items[:split]))
    assert items[:split] + rest == items


def test_an_unsure_list_lets_nobody_in(recorded: Recorded) -> None:
    """Where the source cannot say who may view an item, nobody may."""
    connector = recorded.build()
    unsure = {
        item.external_id: connector.acls(item).viewers
        for item in recorded.items()
        if item.external_id in recorded.expected["unsure"]
    }
    assert unsure == {external_id: frozenset() for external_id in recorded.expected["unsure"]}


def test_known_lists_let_somebody_in(recorded: Recorded) -> None:
    """Every other recorded item has viewers, so the test above could fail."""
    connector = recorded.build()
    dark = [item.external_id for item in recorded.items() if not connector.acls(item).viewers]
    assert dark == recorded.expected["unsure"]


@pytest.mark.parametrize("headers", [{}, {"X-Signature": "sha256=00"}], ids=["unsigned", "forged"])
def test_a_push_that_is_not_signed_yields_nothing(recorded: Recorded, headers: dict[str, str]) -> None:
    """An unsigned or forged push raises Unauthenticated."""
    with pytest.raises(Unauthenticated):
        recorded.build().webhook(headers, b'{"changed": ["1"]}')
