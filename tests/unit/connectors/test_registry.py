"""Discovery of connectors."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from connectors import registry
from connectors.files import FilesConnector
from cortex.errors import InputError, Misconfigured
from cortex.ports.connectors import SourceConfig


def test_own_connectors_are_found_by_their_module_name() -> None:
    """The class whose source type is its module's name is the connector of that type."""
    assert registry.connector_class("files") is FilesConnector


def test_an_unknown_type_names_the_known_ones() -> None:
    """An unknown source type is the caller's error and lists what exists."""
    with pytest.raises(InputError) as caught:
        registry.build_connector(SourceConfig("acme", "s", "gopher", "old"))
    assert (caught.value.error_code, caught.value.hint) == (
        "source.unknown",
        f"known types: {', '.join(registry.discover())}",
    )


@pytest.mark.parametrize("value", ["connectors.absent:Absent", "connectors.files:Absent", "json:JSONDecoder"])
def test_a_broken_entry_point_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed connector that cannot be loaded, or that is none, is reported by its name."""
    entry = EntryPoint("broken", value, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda **_: [entry])
    with pytest.raises(Misconfigured, match="the connector broken"):
        registry.connector_class("broken")
