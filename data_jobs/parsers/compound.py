"""Compound files (MS-CFB): the streams inside legacy office files and Outlook messages, every chain bounded."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from data_jobs.parsers.failures import FailureCode, unparsable

_HEADER_BYTES = 512
_FREE, _END, _FAT, _DIFAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFC
_STORAGE, _STREAM, _ROOT = 1, 2, 5
_ENTRY_BYTES = 128
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    kind: int
    left: int
    right: int
    child: int
    start: int
    size: int


class CompoundFile:
    """The streams of one compound file, by path (`storage/stream`, names as written)."""

    def __init__(self, content: bytes) -> None:
        try:
            self._open(content)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise unparsable(FailureCode.CORRUPT, "it is a broken compound file") from error

    def _open(self, content: bytes) -> None:
        self._content = content
        shift, mini_shift = struct.unpack_from("<HH", content, 30)
        if shift not in (9, 12) or mini_shift != 6:
            raise unparsable(FailureCode.CORRUPT, "it is a broken compound file")
        self._sector: int = 1 << shift
        self._mini_sector: int = 1 << mini_shift
        self._max_sectors = len(content) // self._sector + 1
        directory, _, self._cutoff, mini_fat, _, difat = struct.unpack_from("<6I", content, 48)
        self._fat: tuple[int, ...] = self._read_fat(difat)
        entries = self._chain(directory)
        self._entries = [
            _entry(entries, at) for at in range(0, len(entries) - _ENTRY_BYTES + 1, _ENTRY_BYTES)
        ]
        root = self._entries[0]
        self._mini_fat = _integers(self._chain(mini_fat)) if mini_fat < _DIFAT else ()
        self._mini_stream = self._chain(root.start) if root.start < _DIFAT else b""
        self._streams = dict(self._list(root.child, "", 0))

    @property
    def names(self) -> list[str]:
        """Paths of all streams."""
        return list(self._streams)

    def __contains__(self, name: str) -> bool:
        return name in self._streams

    def read(self, name: str) -> bytes:
        """Return a stream's bytes; raises Unparsable if it is absent."""
        entry = self._streams.get(name)
        if entry is None:
            raise unparsable(FailureCode.CORRUPT, "a stream of the compound file is missing")
        if entry.size < self._cutoff:
            return self._mini_chain(entry.start)[: entry.size]
        return self._chain(entry.start)[: entry.size]

    def _read_fat(self, difat: int) -> tuple[int, ...]:
        sectors = list(struct.unpack_from("<109I", self._content, 76))
        per_sector = self._sector // 4 - 1
        for _ in range(self._max_sectors):
            if difat >= _DIFAT:
                break
            *more, difat = struct.unpack_from(f"<{per_sector + 1}I", self._content, self._offset(difat))
            sectors += more
        used = [sector for sector in sectors if sector < _DIFAT][: self._max_sectors]
        return _integers(b"".join(self._content[self._offset(s) : self._offset(s + 1)] for s in used))

    def _offset(self, sector: int) -> int:
        return (sector + 1) * self._sector

    def _chain(self, sector: int) -> bytes:
        """Join the sectors of a chain; a loop ends at the number of sectors that the file can hold."""
        parts: list[bytes] = []
        while sector < _DIFAT and len(parts) < self._max_sectors:
            parts.append(self._content[self._offset(sector) : self._offset(sector + 1)])
            sector = self._fat[sector] if sector < len(self._fat) else _END
        return b"".join(parts)

    def _mini_chain(self, sector: int) -> bytes:
        parts: list[bytes] = []
        limit = len(self._mini_stream) // self._mini_sector + 1
        while sector < _DIFAT and len(parts) < limit:
            at = sector * self._mini_sector
            parts.append(self._mini_stream[at : at + self._mini_sector])
            sector = self._mini_fat[sector] if sector < len(self._mini_fat) else _END
        return b"".join(parts)

    def _list(self, index: int, folder: str, depth: int) -> Iterator[tuple[str, _Entry]]:
        """Walk the tree of one storage's entries without recursion over siblings, each entry once."""
        pending, seen = [index], set[int]()
        while pending:
            at = pending.pop()
            if at >= len(self._entries) or at in seen:
                continue
            seen.add(at)
            entry = self._entries[at]
            pending += [entry.left, entry.right]
            if entry.kind == _STREAM:
                yield folder + entry.name, entry
            elif entry.kind == _STORAGE and depth < _MAX_DEPTH:
                yield from self._list(entry.child, f"{folder}{entry.name}/", depth + 1)


def _entry(directory: bytes, at: int) -> _Entry:
    name, length, kind = struct.unpack_from("<64sHB", directory, at)
    left, right, child = struct.unpack_from("<3I", directory, at + 68)
    start, size = struct.unpack_from("<II", directory, at + 116)
    text = name[: max(min(length, 64) - 2, 0)].decode("utf-16-le", errors="replace")
    return _Entry(text, kind, left, right, child, start, size)


def _integers(content: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(content) // 4}I", content[: len(content) // 4 * 4])
