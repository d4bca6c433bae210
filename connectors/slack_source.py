"""The two ways into a Slack workspace, behind one shape: an export archive, or the Web API."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from connectors.slack_files import SharedFile
from connectors.slack_model import Channel, Workspace
from cortex.documents import Item
from cortex.ports.connectors import FetchFailure, Skipped


@dataclass(frozen=True, slots=True)
class Raw:
    """One raw message and the place it was found at, for reports."""

    place: str
    message: Any


class SlackSource(Protocol):
    """A workspace that can be read."""

    def workspace(self) -> Workspace:
        """Read people, channels and user groups; raises a CortexError when the source as a whole cannot be read."""

    def problems(self) -> list[FetchFailure]:
        """Say what was wrong with the workspace itself, once it has been read."""

    def skipped(self) -> list[Skipped]:
        """Say what is left out on purpose beside messages, once the workspace has been read."""

    def messages(self, channel: Channel, since_us: int) -> Iterator[Raw | FetchFailure]:
        """List a channel's messages with their replies, at least those of threads and days active since then.

        A failure under the channel's id with a code ending in `.unreadable` says that some are out of sight.
        """

    def some(self, channel: Channel, names: Collection[str]) -> Iterator[Raw | FetchFailure]:
        """List at least the messages of some threads, by their `ts`, and of some days; those of a thread that is gone are none."""

    def find(self, file: SharedFile) -> str:
        """Return where a file's content lies in the source itself; empty when it has to be downloaded."""

    def content(self, item: Item, max_bytes: int) -> bytes:
        """Return the content of a file's item; raises Unparsable with the reason why not."""

    def close(self) -> None:
        """Let go of files and connections."""
