"""Conversations, as chat connectors write them: one turn per message, each anchored to its own address."""

from __future__ import annotations

from cortex.conversations import Conversation
from cortex.documents import Anchor, BlockKind, ParsedBody
from cortex.errors import Unparsable
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.failures import FailureCode, unparsable


def parse_conversation(content: bytes, name: str) -> ParsedBody:
    """Parse a conversation; its dates are those of its first and last turn, its author is who began it."""
    try:
        conversation = Conversation.from_bytes(content)
    except Unparsable as error:
        raise unparsable(FailureCode.CORRUPT, error.message) from error
    builder = BodyBuilder()
    for number, turn in enumerate(conversation.turns, start=1):
        line = f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text
        builder.add(BlockKind.TURN, line, Anchor("message", number, number, turn.mark), speaker=turn.speaker)
    first, last = conversation.turns[:1], conversation.turns[-1:]
    return builder.finish(
        title=conversation.title,
        author="".join(turn.speaker for turn in first),
        created_at=next((turn.at for turn in first), None),
        updated_at=next((turn.at for turn in last), None),
    )
