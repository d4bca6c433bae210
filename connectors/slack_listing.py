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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.slack_access import viewers
from connectors.slack_files import HIDDEN_REASON, FileState, SharedFile, skipped_file
from connectors.slack_messages import Notes, Said, instant, read_messages, skipped_messages
from connectors.slack_model import Channel, Workspace
from connectors.slack_source import Raw, SlackSource
from connectors.slack_text import Renderer
from connectors.slack_threads import Unit, file_item_id, permalink, units
from cortex.conversations import MEDIA_TYPE
from cortex.documents import Item
from cortex.ports.connectors import FetchFailure

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where an item stands in the order, and where its content waits; a file's is read from its source when needed."""

    rank_us: int
    external_id: str
    media_type: str = field(compare=False)
    offset: int | None = field(compare=False)
    size_bytes: int = field(compare=False)
    meta: dict[str, str] = field(compare=False)


class Listing:
    """All items of a workspace that were active since an instant, or those wanted, and what cannot be read."""

    def __init__(self, source: SlackSource, since_us: int = 0, wanted: frozenset[str] | None = None) -> None:
        self.wanted = wanted
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the listing
        weakref.finalize(self, self._spool.close)
        self._size = 0
        self._places: list[_Place] = []
        self._horizon_us = int(time.time() * 1_000_000) + _DAY_US
        self._left_out: Counter[str] = Counter()
        self._files_left_out: dict[FileState, list[str]] = {}
        self.workspace: Workspace = source.workspace()
        self.failures = list(source.problems())
        for _, channel in sorted(self.workspace.channels.items()):
            self._read(source, channel, since_us)
        self._places.sort()
        files = (skipped_file(state, len(ids), ids[0]) for state, ids in self._files_left_out.items())
        self.skipped = [*source.skipped(), *skipped_messages(self._left_out), *files]

    def items(self, after: tuple[int, str]) -> Iterator[Item]:
        """Yield the items after a place of the order."""
        for place in self._places:
            if (place.rank_us, place.external_id) > after:
                yield Item(
                    place.external_id,
                    place.media_type,
                    content=self._content(place),
                    modified_at=instant(int(place.meta["active_us"])),
                    size_bytes=place.size_bytes,
                    meta=place.meta,
                )

    def _content(self, place: _Place) -> bytes | None:
        if place.offset is None:
            return None
        self._spool.seek(place.offset)
        return self._spool.read(place.size_bytes)

    def _read(self, source: SlackSource, channel: Channel, since_us: int) -> None:
        allowed = viewers(self.workspace, channel)
        if not allowed:
            reason = "its members are unknown; what is in it is loaded, and nobody may see it"
            self.failures.append(FetchFailure(channel.channel_id, "access.unknown", reason))
        notes = Notes()
        if self.wanted is None:
            found = source.messages(channel, since_us)
        else:
            own = (each.partition("/") for each in self.wanted)
            names = {name for channel_id, _, name in own if channel_id == channel.channel_id}
            if not names:
                return
            found = source.some(channel, names)
        raws = self._usable(found)
        renderer = Renderer(self.workspace, channel)
        said = read_messages(raws, renderer, notes)
        about = {"channel": channel.name, "viewers": " ".join(allowed)}
        seen = set(self.wanted or ())
        for unit in units(self.workspace, channel, said):
            if self.wanted is None or unit.external_id in self.wanted:
                seen.update(file_id for turn in unit.conversation.turns for file_id in turn.files)
                self._keep(unit, about)
        for file, one in _shared(said).values():
            if self.wanted is None or file_item_id(channel, file.file_id) in seen:
                self._keep_file(source, renderer, file, one, about)
        self._left_out += notes.skipped
        self.failures += [FetchFailure(place, "message.malformed", reason) for place, reason in notes.broken]

    def _usable(self, found: Iterator[Raw | FetchFailure]) -> Iterator[tuple[str, Any]]:
        for each in found:
            if isinstance(each, FetchFailure):
                self.failures.append(each)
            else:
                yield each.place, each.message

    def _keep(self, unit: Unit, about: Mapping[str, str]) -> None:
        content = unit.conversation.to_bytes()
        self._spool.seek(self._size)
        self._spool.write(content)
        meta = {"permalink": unit.permalink, **about}
        self._add(unit.external_id, MEDIA_TYPE, unit.active_us, meta, len(content), self._size)
        self._size += len(content)

    def _keep_file(
        self, source: SlackSource, renderer: Renderer, file: SharedFile, one: Said, about: Mapping[str, str]
    ) -> None:
        """Keep what becomes a document; what does not is reported, or counted as left out."""
        channel = renderer.channel
        external_id = file_item_id(channel, file.file_id)
        if file.state is FileState.HIDDEN:
            self.failures.append(FetchFailure(external_id, "file.hidden", HIDDEN_REASON))
        elif not file.is_readable:
            self._files_left_out.setdefault(file.state, []).append(external_id)
        else:
            address = permalink(self.workspace, channel.channel_id, one.ts, one.thread_ts)
            meta = {
                "permalink": file.permalink if file.permalink.startswith("https://") else address,
                "file_id": file.file_id,
                "fingerprint": f"{file.file_id}:{file.version}",
                "name": file.name,
                "title": file.title,
                "author": renderer.person(file.user_id) if file.user_id else one.speaker,
                "created_us": str(file.created_s * 1_000_000 or one.at_us),
                "place": source.find(file),
                "url": file.url,
                **about,
            }
            self._add(external_id, file.media_type, one.active_us, meta, file.size_bytes)

    def _add(
        self,
        external_id: str,
        media_type: str,
        active_us: int,
        meta: Mapping[str, str],
        size_bytes: int,
        offset: int | None = None,
    ) -> None:
        # A date far ahead (a clock that ran fast) would push the cursor past everything that comes after it.
        rank_us = active_us if active_us <= self._horizon_us else 0
        placed = {**meta, "active_us": str(active_us), "rank_us": str(rank_us)}
        self._places.append(_Place(rank_us, external_id, media_type, offset, size_bytes, placed))


def _shared(said: Mapping[str, Said]) -> dict[str, tuple[SharedFile, Said]]:
    """Find each file of a channel with the last active message that shares it, and as that one shows it."""
    found: dict[str, tuple[SharedFile, Said]] = {}
    for one in sorted(said.values(), key=lambda one: one.active_us):
        found.update({file.file_id: (file, one) for file in one.files})
    return found
