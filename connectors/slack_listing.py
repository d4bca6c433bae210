"""A listing of a workspace: read once, channel by channel, kept on disk, and given out in the order of last activity.

That order is what makes a cursor possible: a thread with a late reply comes after everything listed before the reply.
The order is known only when all has been read, and a workspace may not fit into memory, so that contents wait in an
unlinked temporary file.
"""

from __future__ import annotations

import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from connectors.slack_access import viewers
from connectors.slack_messages import Notes, instant, read_messages, skipped_messages
from connectors.slack_model import Channel, Workspace
from connectors.slack_source import Raw, SlackSource
from connectors.slack_text import Renderer
from connectors.slack_threads import Unit, units
from cortex.conversations import MEDIA_TYPE
from cortex.documents import Item
from cortex.ports import FetchFailure

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where an item stands in the order, and where its content waits."""

    active_us: int
    external_id: str
    offset: int = field(compare=False)
    size_bytes: int = field(compare=False)
    meta: dict[str, str] = field(compare=False)


class Listing:
    """All items of a workspace that were active since an instant, and what cannot be read."""

    def __init__(self, source: SlackSource, since_us: int = 0) -> None:
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the listing
        weakref.finalize(self, self._spool.close)
        self._size = 0
        self._places: list[_Place] = []
        self._horizon_us = int(time.time() * 1_000_000) + _DAY_US
        left_out: Counter[str] = Counter()
        self.workspace: Workspace = source.workspace()
        self.failures = list(source.problems())
        for _, channel in sorted(self.workspace.channels.items()):
            left_out += self._read(source, channel, since_us)
        self._places.sort()
        self.skipped = [*source.skipped(), *skipped_messages(left_out)]

    def items(self, after: tuple[int, str]) -> Iterator[Item]:
        """Yield the items after a place of the order."""
        for place in self._places:
            if (place.active_us, place.external_id) > after:
                self._spool.seek(place.offset)
                yield Item(
                    place.external_id,
                    MEDIA_TYPE,
                    content=self._spool.read(place.size_bytes),
                    modified_at=instant(int(place.meta["active_us"])),
                    size_bytes=place.size_bytes,
                    meta=place.meta,
                )

    def _read(self, source: SlackSource, channel: Channel, since_us: int) -> Counter[str]:
        """Read a channel; returns how many of its messages are left out, by kind."""
        allowed = viewers(self.workspace, channel)
        if not allowed:
            reason = "its members are unknown; what is in it is loaded, and nobody may see it"
            self.failures.append(FetchFailure(channel.channel_id, "access.unknown", reason))
        notes = Notes()
        raws = self._usable(source.messages(channel, since_us))
        said = read_messages(raws, Renderer(self.workspace, channel), notes)
        for unit in units(self.workspace, channel, said):
            self._keep(unit, channel, allowed)
        self.failures += [FetchFailure(place, "message.malformed", reason) for place, reason in notes.broken]
        return notes.skipped

    def _usable(self, found: Iterator[Raw | FetchFailure]) -> Iterator[tuple[str, Any]]:
        for each in found:
            if isinstance(each, FetchFailure):
                self.failures.append(each)
            else:
                yield each.place, each.message

    def _keep(self, unit: Unit, channel: Channel, allowed: tuple[str, ...]) -> None:
        content = unit.conversation.to_bytes()
        self._spool.seek(self._size)
        self._spool.write(content)
        # A date far ahead (a clock that ran fast) would push the cursor past everything that comes after it.
        rank_us = unit.active_us if unit.active_us <= self._horizon_us else 0
        meta = {
            "active_us": str(unit.active_us),
            "rank_us": str(rank_us),
            "channel": channel.name,
            "permalink": unit.permalink,
            "viewers": " ".join(allowed),
        }
        self._places.append(_Place(rank_us, unit.external_id, self._size, len(content), meta))
        self._size += len(content)
