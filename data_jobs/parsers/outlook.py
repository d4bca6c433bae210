"""Outlook messages (.msg, MS-OXMSG): headers as metadata, the body as plain text, HTML or RTF, and attachments."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import datetime

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.attachments import Attachment, add_attachments
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.compound import CompoundFile
from data_jobs.parsers.decode import declared_encoding, decode
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.html import parse_html
from data_jobs.parsers.ole_properties import filetime
from data_jobs.parsers.rtf import decompress, parse_rtf
from data_jobs.parsers.text import parse_text

_SUBJECT, _SENDER, _SENDER_MAIL, _TO, _CC = "0037", "0C1A", "5D01", "0E04", "0E03"
_PLAIN, _RTF, _HTML = "1000", "1009", "1013"
_SENT_AT, _DELIVERED_AT = 0x0039, 0x0E06
_FILE_NAME, _LONG_NAME, _MEDIA_TYPE, _DATA = "3704", "3707", "370E", "3701"
_WIDE, _NARROW, _BINARY = "001F", "001E", "0102"
_TIME_TYPE = 0x0040
_HEADER_BYTES, _PROPERTY_BYTES = 32, 16


def parse_outlook(compound: CompoundFile) -> ParsedBody:
    """Parse one message."""
    return _Message(compound).read()


class _Message:
    def __init__(self, compound: CompoundFile) -> None:
        self._compound = compound

    def read(self) -> ParsedBody:
        """Read headers, body and attachments."""
        sender = " ".join(filter(None, (self._text(_SENDER), _angled(self._text(_SENDER_MAIL)))))
        headers = {
            "from": sender,
            "to": self._text(_TO),
            "cc": self._text(_CC),
            "subject": self._text(_SUBJECT),
        }
        headers = {name: " ".join(value.split()) for name, value in headers.items() if value.strip()}
        sent_at = self._sent_at()
        if sent_at is not None:
            headers["date"] = sent_at.isoformat()
        builder = BodyBuilder()
        builder.heading(headers.get("subject", ""), 1)
        lines = [
            f"{name.capitalize()}: {headers[name]}"
            for name in ("from", "to", "cc", "date")
            if name in headers
        ]
        builder.add(BlockKind.PARAGRAPH, "\n".join(lines))
        body = self._body()
        if body is not None:
            builder.extend(body, at_source=False, level_shift=1)
        skipped = add_attachments(builder, self._attachments())
        if not headers and body is None:
            raise unparsable(FailureCode.CORRUPT, "it has neither headers nor a body")
        return builder.finish(
            title=headers.get("subject", ""),
            author=self._text(_SENDER),
            created_at=sent_at,
            updated_at=sent_at,
            meta=headers | ({"skipped_attachments": ", ".join(skipped)} if skipped else {}),
        )

    def _body(self) -> ParsedBody | None:
        if plain := self._text(_PLAIN).strip():
            return parse_text(plain.encode(), "body.txt")
        html = self._read(_HTML, _BINARY)
        html_text = decode(html, declared_encoding(html)) if html else self._text(_HTML)
        if html_text.strip():
            return parse_html(html_text.encode(), "body.html")
        packed = self._read(_RTF, _BINARY)
        return parse_rtf(decompress(packed), "body.rtf") if packed else None

    def _attachments(self) -> Iterator[Attachment]:
        folders = {
            name.split("/")[0] for name in self._compound.names if name.startswith("__attach_version1.0_")
        }
        for folder in sorted(folders):
            name = self._text(_LONG_NAME, folder) or self._text(_FILE_NAME, folder)
            content = self._read(_DATA, _BINARY, folder)
            if content:
                yield Attachment(name, self._text(_MEDIA_TYPE, folder), content)

    def _sent_at(self) -> datetime | None:
        stream = self._compound.read("__properties_version1.0")
        times = {}
        for at in range(_HEADER_BYTES, len(stream) - _PROPERTY_BYTES + 1, _PROPERTY_BYTES):
            kind, key, value = struct.unpack_from("<HH4xQ", stream, at)
            if kind == _TIME_TYPE:
                times[key] = value
        return filetime(times.get(_SENT_AT) or times.get(_DELIVERED_AT) or 0)

    def _text(self, key: str, folder: str = "") -> str:
        wide = self._read(key, _WIDE, folder)
        if wide:
            return wide.decode("utf-16-le", errors="replace").rstrip("\0")
        return decode(self._read(key, _NARROW, folder)).rstrip("\0")

    def _read(self, key: str, kind: str, folder: str = "") -> bytes:
        name = f"{folder}/" if folder else ""
        name += f"__substg1.0_{key}{kind}"
        return self._compound.read(name) if name in self._compound else b""


def _angled(address: str) -> str:
    return f"<{address}>" if address else ""
