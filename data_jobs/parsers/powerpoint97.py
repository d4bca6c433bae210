"""PowerPoint 97-2003 presentations (MS-PPT): the texts of each slide with its notes, anchored `slide=n`.

Slides are listed with the texts of their placeholders; free text boxes stand in each slide's own drawing, which is
found through the persist directory. Where that directory is damaged, the listed texts are all there is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from cortex.documents import Anchor, BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.compound import CompoundFile
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.ole_properties import finish_with_properties

_DOCUMENT, _LIST, _PERSIST, _HEADER, _CHARS, _BYTES = 1000, 4080, 1011, 3999, 4000, 4008
_USER_EDIT, _DIRECTORY, _NOTES_ATOM = 4085, 6002, 1009
_ENCRYPTED_TOKEN = 0xF3D1C4DF
_SLIDES, _NOTES = 0, 2  # instances of the list of slides
_TITLES = frozenset({0, 6})
_MAX_DEPTH, _MAX_RECORDS = 30, 500_000


@dataclass(slots=True)
class _Slide:
    persist_id: int
    slide_id: int
    texts: list[tuple[int, str]] = field(default_factory=list)  # (type, text)


@dataclass(frozen=True, slots=True)
class _Record:
    kind: int
    instance: int
    start: int  # of its content
    end: int
    is_container: bool


def parse_powerpoint97(compound: CompoundFile) -> ParsedBody:
    """Parse a binary presentation."""
    user = compound.read("Current User") if "Current User" in compound else b""
    if "EncryptedSummary" in compound or user[12:16] == struct.pack("<I", _ENCRYPTED_TOKEN):
        raise unparsable(FailureCode.ENCRYPTED, "it is protected by a password", "remove the password")
    stream = _Stream(compound.read("PowerPoint Document"))
    builder = BodyBuilder()
    offsets = stream.persist_offsets(struct.unpack_from("<I", user, 16)[0] if len(user) >= 20 else 0)
    notes = dict(stream.notes(offsets))
    for number, slide in enumerate(stream.listed(_SLIDES), start=1):
        boxes = stream.texts_at(offsets.get(slide.persist_id))
        _add_slide(builder, number, [*slide.texts, *boxes], notes.get(slide.slide_id, ()))
    return finish_with_properties(compound, builder)


def _add_slide(
    builder: BodyBuilder, number: int, texts: list[tuple[int, str]], notes: tuple[str, ...] | list[str]
) -> None:
    anchor = Anchor("slide", number, number)
    title = next((text for kind, text in texts if kind in _TITLES and text.strip()), "")
    builder.heading(title or f"Slide {number}", 1, anchor)
    for kind, text in texts:
        if kind in _TITLES and text == title:
            continue
        lines = [line for line in text.replace("\x0b", "\n").split("\r") if line.strip()]
        for line in lines:
            if len(lines) > 1:
                builder.add(BlockKind.LIST, f"- {line.strip()}", anchor)
            else:
                builder.add(BlockKind.PARAGRAPH, line, anchor)
    for note in notes:
        builder.add(BlockKind.PARAGRAPH, f"Notes: {note}", anchor)


class _Stream:
    """The record tree of a presentation (MS-PPT 2.3.1)."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def listed(self, instance: int) -> list[_Slide]:
        """Return the slides (or notes) of a list in the document, with their placeholder texts."""
        slides: list[_Slide] = []
        kind = -1
        for record in self._walk(0, len(self._content), 0, {_DOCUMENT, _LIST}):
            if record.kind != _LIST or record.instance != instance:
                continue
            for inner in self._records(record.start, record.end):
                if inner.kind == _PERSIST and inner.end - inner.start >= 16:
                    persist_id, _, _, slide_id = struct.unpack_from("<4I", self._content, inner.start)
                    slides.append(_Slide(persist_id, slide_id))
                elif inner.kind == _HEADER:
                    kind = self._integer(inner)
                elif slides and (text := self._text(inner)):
                    slides[-1].texts.append((kind, text))
        return slides

    def notes(self, offsets: dict[int, int]) -> Iterator[tuple[int, list[str]]]:
        """Yield (slide id, note texts) for every page of notes."""
        for page in self.listed(_NOTES):
            offset = offsets.get(page.persist_id)
            if offset is None:
                continue
            top = next(self._records(offset, len(self._content)), None)
            if top is None:
                continue
            ids = [self._integer(r) for r in self._records(top.start, top.end) if r.kind == _NOTES_ATOM]
            texts = [text for kind, text in self.texts_at(offset) if kind == _NOTES and text.strip()]
            if ids and texts:
                yield ids[0], [text.replace("\r", "\n") for text in texts]

    def texts_at(self, offset: int | None) -> list[tuple[int, str]]:
        """Return the texts of the shapes drawn in the container at an offset."""
        if offset is None:
            return []
        top = next(self._records(offset, len(self._content)), None)
        if top is None or not top.is_container:
            return []
        found, kind = [], -1
        for record in self._walk(top.start, top.end, 0, None):
            if record.kind == _HEADER:
                kind = self._integer(record)
            elif text := self._text(record):
                found.append((kind, text))
        return found

    def persist_offsets(self, edit: int) -> dict[int, int]:
        """Map persist ids to offsets, newest edit first (MS-PPT 2.3.4)."""
        offsets: dict[int, int] = {}
        seen = set[int]()
        while edit and edit not in seen:
            seen.add(edit)
            record = next(self._records(edit, len(self._content)), None)
            if record is None or record.kind != _USER_EDIT or record.end - record.start < 16:
                break
            previous, directory = struct.unpack_from("<II", self._content, record.start + 8)
            found = next(self._records(directory, len(self._content)), None)
            if found is not None and found.kind == _DIRECTORY:
                for persist_id, offset in self._directory(found):
                    offsets.setdefault(persist_id, offset)
            edit = previous
        return offsets

    def _directory(self, record: _Record) -> Iterator[tuple[int, int]]:
        at = record.start
        while at + 4 <= record.end:
            (packed,) = struct.unpack_from("<I", self._content, at)
            first, count = packed & 0xFFFFF, packed >> 20
            at += 4
            for i in range(min(count, (record.end - at) // 4)):
                yield first + i, struct.unpack_from("<I", self._content, at + 4 * i)[0]
            at += 4 * count

    def _walk(self, start: int, end: int, depth: int, containers: set[int] | None) -> Iterator[_Record]:
        for record in self._records(start, end):
            yield record
            is_entered = containers is None or record.kind in containers
            if record.is_container and is_entered and depth < _MAX_DEPTH:
                yield from self._walk(record.start, record.end, depth + 1, containers)

    def _records(self, at: int, end: int) -> Iterator[_Record]:
        for _ in range(_MAX_RECORDS):
            if at + 8 > end:
                return
            head, kind, length = struct.unpack_from("<HHI", self._content, at)
            stop = min(at + 8 + length, end)
            yield _Record(kind, head >> 4, at + 8, stop, head & 0xF == 0xF)
            at = stop

    def _text(self, record: _Record) -> str:
        raw = self._content[record.start : record.end]
        if record.kind == _CHARS:
            return raw.decode("utf-16-le", errors="replace")
        return raw.decode("latin-1") if record.kind == _BYTES else ""

    def _integer(self, record: _Record) -> int:
        return int.from_bytes(self._content[record.start : record.start + 4], "little")
