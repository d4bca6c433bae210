"""Conversations: what chat connectors write comes back turn by turn."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.conversations import MEDIA_TYPE, Conversation, Turn
from cortex.errors import Unparsable
from data_jobs.parsers.registry import parse
from tests.unit.data_jobs.seen import blocks

AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
LATER = datetime(2026, 3, 3, 9, 30, tzinfo=UTC)

words = st.text(max_size=20)
turns = st.builds(Turn, words, words, st.datetimes(timezones=st.just(UTC)), words)


def test_every_message_is_a_turn_with_its_own_address() -> None:
    """Speakers stand in the text and beside it, the title and the dates are the conversation's."""
    said = (Turn("Ana", "When do we ship?", AT, "p100"), Turn("佐藤", "%PDF- 四月", LATER, "p200"))
    parsed = parse(Conversation("#general: When", said).to_bytes(), "", MEDIA_TYPE)
    assert blocks(parsed) == [("turn", "Ana: When do we ship?", "p100"), ("turn", "佐藤: %PDF- 四月", "p200")]
    assert [(block.speaker, block.anchor.start) for block in parsed.blocks] == [("Ana", 1), ("佐藤", 2)]
    assert (parsed.title, parsed.author) == ("#general: When", "Ana")
    assert (parsed.created_at, parsed.updated_at) == (AT, LATER)


@given(st.builds(Conversation, words, st.lists(turns, max_size=4).map(tuple)))
def test_a_conversation_survives_as_bytes(given: Conversation) -> None:
    """Any conversation comes back as it was."""
    assert Conversation.from_bytes(given.to_bytes()) == given


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b'{"title": "x", "turns": [{}]}', b'{"title": "x", "turns": 3}', b"\xff", b"[" * 100_000],
    ids=["empty", "list", "blank-turn", "number", "bytes", "deep"],
)
def test_what_is_no_conversation_is_refused(content: bytes) -> None:
    """Broken content is a failure with a code."""
    with pytest.raises(Unparsable) as caught:
        parse(content, "", MEDIA_TYPE)
    assert caught.value.error_code == "document.corrupt"
