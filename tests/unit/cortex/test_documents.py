"""Where a citation leads: a document's permalink and the place inside it."""

from __future__ import annotations

import pytest

from cortex.documents import Anchor, source_link

SLACK = "https://acme.slack.com/archives/C0GEN/p100"


@pytest.mark.parametrize(
    ("permalink", "anchor", "link"),
    [
        ("file:///a/b.md", Anchor("line", 3, 5), "file:///a/b.md#L3-L5"),
        ("https://a.example/b#part", Anchor("line", 3, 5), "https://a.example/b#part"),
        ("file:///a/b.md", Anchor(), "file:///a/b.md"),
        (SLACK, Anchor("message", 2, 4, "p200"), "https://acme.slack.com/archives/C0GEN/p200"),
        (
            f"{SLACK}?thread_ts=1.0&cid=C0GEN",
            Anchor("message", 2, 2, "p200"),
            "https://acme.slack.com/archives/C0GEN/p200?thread_ts=1.0&cid=C0GEN",
        ),
    ],
    ids=["line", "own-fragment", "nowhere", "message", "reply"],
)
def test_a_citation_opens_its_place(permalink: str, anchor: Anchor, link: str) -> None:
    """A place is the link's fragment; a message has an address of its own, and keeps its thread's query."""
    assert source_link(permalink, anchor.kind, anchor.fragment) == link
