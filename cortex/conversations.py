"""Conversations: a thread of any chat as one document, turn by turn; what chat connectors write and one parser reads.

As bytes it is UTF-8 JSON under the media type below: `{"title", "turns": [{"speaker", "text", "at", "mark"}]}`, a turn
that shares files with their ids as `files`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from cortex.errors import Unparsable

MEDIA_TYPE = "application/vnd.cortex.conversation+json"


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person said at once. `mark` is the message's own last part in the permalink of its conversation.

    `files` are the external ids of the documents that it shares.
    """

    speaker: str
    text: str
    at: datetime
    mark: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in their order, under a title that says where and about what."""

    title: str
    turns: tuple[Turn, ...]

    def to_bytes(self) -> bytes:
        """Write it; equal conversations give equal bytes. A lone surrogate, which UTF-8 cannot hold, becomes `?`."""
        turns = [
            {"speaker": turn.speaker, "text": turn.text, "at": turn.at.isoformat(), "mark": turn.mark}
            | ({"files": list(turn.files)} if turn.files else {})
            for turn in self.turns
        ]
        text = json.dumps({"title": self.title, "turns": turns}, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")

    @classmethod
    def from_bytes(cls, content: bytes) -> Conversation:
        """Read it; raises Unparsable when it is none."""
        try:
            given = json.loads(content)
            turns = [
                Turn(
                    turn["speaker"],
                    turn["text"],
                    datetime.fromisoformat(turn["at"]),
                    turn["mark"],
                    tuple(turn.get("files", ())),
                )
                for turn in given["turns"]
            ]
            return cls(given["title"], tuple(turns))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Unparsable("it is no conversation", code="document.corrupt") from error
