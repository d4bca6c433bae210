"""The summary information of compound files (MS-OLEPS): title, author, subject, keywords and dates."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta

from cortex.documents import ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.compound import CompoundFile
from data_jobs.parsers.decode import decode

_STREAM = "\x05SummaryInformation"
_TITLE, _SUBJECT, _AUTHOR, _KEYWORDS, _CREATED, _SAVED, _CODE_PAGE = 2, 3, 4, 5, 12, 13, 1
_SHORT, _NARROW, _WIDE, _FILETIME = 2, 30, 31, 64
_MAX_PROPERTIES, _MAX_CHARS = 500, 2_000
_UTF16_CODE_PAGE = 1200


def finish_with_properties(compound: CompoundFile, builder: BodyBuilder, title: str = "") -> ParsedBody:
    """Finish a body with what the file says about itself; damaged properties are left out."""
    try:
        found = _read(compound.read(_STREAM)) if _STREAM in compound else {}
    except (struct.error, IndexError, OverflowError):
        found = {}
    texts = {key: value for key, value in found.items() if isinstance(value, str)}
    created, saved = found.get(_CREATED), found.get(_SAVED)
    meta = {"subject": texts.get(_SUBJECT, ""), "keywords": texts.get(_KEYWORDS, "")}
    return builder.finish(
        title=texts.get(_TITLE, "") or title,
        author=texts.get(_AUTHOR, ""),
        created_at=created if isinstance(created, datetime) else None,
        updated_at=saved if isinstance(saved, datetime) else None,
        meta={name: value for name, value in meta.items() if value},
    )


def filetime(ticks: int) -> datetime | None:
    """Convert 100-nanosecond ticks since 1601 to an instant; None for zero and for what leaves the calendar."""
    try:
        return datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10) if ticks else None
    except OverflowError:
        return None


def _read(stream: bytes) -> dict[int, str | datetime | None]:
    (section,) = struct.unpack_from("<I", stream, 44)
    (count,) = struct.unpack_from("<I", stream, section + 4)
    code_page = 0
    found: dict[int, str | datetime | None] = {}
    for n in range(min(count, _MAX_PROPERTIES)):
        key, offset = struct.unpack_from("<II", stream, section + 8 + 8 * n)
        at = section + offset
        (kind,) = struct.unpack_from("<I", stream, at)
        if key == _CODE_PAGE and kind == _SHORT:
            (code_page,) = struct.unpack_from("<H", stream, at + 4)
        elif kind in (_NARROW, _WIDE):
            (length,) = struct.unpack_from("<I", stream, at + 4)
            is_wide = kind == _WIDE or code_page == _UTF16_CODE_PAGE
            n_bytes = min(length * (2 if kind == _WIDE else 1), 2 * _MAX_CHARS)
            found[key] = _text(stream[at + 8 : at + 8 + n_bytes], is_wide, code_page)
        elif kind == _FILETIME:
            found[key] = filetime(struct.unpack_from("<Q", stream, at + 4)[0])
    return found


def _text(raw: bytes, is_wide: bool, code_page: int) -> str:
    if is_wide:
        return raw.decode("utf-16-le", errors="replace").split("\0")[0]
    return decode(raw.split(b"\0")[0], f"cp{code_page}" if code_page else "")
