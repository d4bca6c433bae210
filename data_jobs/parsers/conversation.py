"""Conversations, as chat connectors write them: one turn per message, each anchored to its own address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cortex.conversations import Conversation
from cortex.documents import Anchor, BlockKind, ParsedBody
from cortex.edges import Edge, EdgeKind, EdgeSpace
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
    parsed = builder.finish(
        title=conversation.title,
        author="".join(turn.speaker for turn in first),
        created_at=next((turn.at for turn in first), None),
        updated_at=next((turn.at for turn in last), None),
    )
    return replace(parsed, edges=tuple(_shared(conversation, parsed)))


def _shared(conversation: Conversation, parsed: ParsedBody) -> Iterator[Edge]:
    """Link each turn to the files it shares; the whole turn is what says so."""
    for block in parsed.blocks:
        for file_id in conversation.turns[block.anchor.start - 1].files:
            yield Edge(EdgeKind.EMBED, EdgeSpace.ATTACHMENT, file_id, block.byte_start, block.byte_end)
