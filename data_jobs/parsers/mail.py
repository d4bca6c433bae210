"""Mail (RFC 5322, and mbox): headers as metadata, the best body part, and the attachments that can be parsed."""

from __future__ import annotations

import email
import re
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage, Message
from email.policy import default as modern
from email.utils import getaddresses, parsedate_to_datetime

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.attachments import Attachment, add_attachments
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import as_utc
from data_jobs.parsers.decode import decode
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.html import parse_html
from data_jobs.parsers.text import parse_text

_FROM_LINE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\n]*\n")
_HEADERS = ("from", "to", "cc", "date", "subject")
# A plain part this short beside an HTML one is "see the HTML version", not the mail.
_MIN_PLAIN_CHARS = 40
_MALFORMED = (ValueError, IndexError, LookupError, AttributeError, TypeError)


def parse_mail(content: bytes, name: str) -> ParsedBody:
    """Parse one message, or the messages of an mbox file one after the other."""
    starts = [match.span() for match in _FROM_LINE.finditer(content)]
    if not content.startswith(b"From ") or not starts:
        return _parse_message(content)
    ends = [start for start, _ in starts[1:]] + [len(content)]
    messages = [_parse_message(content[begin:end]) for (_, begin), end in zip(starts, ends, strict=True)]
    if len(messages) == 1:
        return messages[0]
    builder = BodyBuilder()
    for message in messages:
        builder.extend(message)
    return builder.finish(title=name, meta={"messages": str(len(messages))})


def _parse_message(content: bytes) -> ParsedBody:
    message = email.message_from_bytes(content, policy=modern)
    headers = {name: value for name in _HEADERS if (value := _header(message, name))}
    if not headers:
        raise unparsable(FailureCode.CORRUPT, "it has none of the headers of a mail")
    builder = BodyBuilder()
    builder.heading(headers.get("subject", ""), 1)
    lines = [
        f"{name.capitalize()}: {headers[name]}" for name in ("from", "to", "cc", "date") if name in headers
    ]
    builder.add(BlockKind.PARAGRAPH, "\n".join(lines))
    body = _body_part(message)
    if body is not None:
        _add_body(builder, body)
    skipped = add_attachments(builder, _attachments(message, body))
    sent_at = _sent_at(headers.get("date", ""))
    return builder.finish(
        title=headers.get("subject", ""),
        author=_name_of(headers.get("from", "")),
        created_at=sent_at,
        updated_at=sent_at,
        meta=headers | ({"skipped_attachments": ", ".join(skipped)} if skipped else {}),
    )


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except _MALFORMED:
        return ""


def _body_part(message: EmailMessage) -> Message | None:
    plain = message.get_body(("plain",))
    rich = message.get_body(("html",))
    if plain is not None and (rich is None or len(_payload(plain).strip()) >= _MIN_PLAIN_CHARS):
        return plain
    return rich


def _add_body(builder: BodyBuilder, part: Message) -> None:
    # The charset parameter may be wrong: decoding tries it after UTF-8.
    text = decode(_payload(part), part.get_content_charset("")).encode()
    is_html = part.get_content_type() == "text/html"
    parsed = parse_html(text, "body.html") if is_html else parse_text(text, "body.txt")
    builder.extend(parsed, at_source=False, level_shift=1)


def _attachments(message: EmailMessage, body: Message | None) -> Iterator[Attachment]:
    for part in _leaves(message):
        if part is body:
            continue
        name = _file_name(part)
        is_attached = bool(name) or part.get_content_disposition() == "attachment"
        if part.get_content_type() == "message/rfc822":
            inner = part.get_payload(0) if part.is_multipart() else None
            if isinstance(inner, Message):
                yield Attachment(name or "message.eml", "message/rfc822", inner.as_bytes())
        elif is_attached:
            yield Attachment(name, part.get_content_type(), _payload(part))


def _leaves(part: Message) -> Iterator[Message]:
    """Yield the parts that hold something, in order; a mail inside is one part, which is not entered."""
    inner = part.get_payload() if part.get_content_maintype() == "multipart" else None
    if not isinstance(inner, list):
        yield part
        return
    for one in inner:
        if isinstance(one, Message):
            yield from _leaves(one)


def _file_name(part: Message) -> str:
    try:
        return part.get_filename("") or ""
    except _MALFORMED:
        return ""


def _payload(part: Message) -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except _MALFORMED:
        return b""
    return payload if isinstance(payload, bytes) else b""


def _name_of(sender: str) -> str:
    pairs = getaddresses([sender])
    return pairs[0][0] or pairs[0][1] if pairs else ""


def _sent_at(date: str) -> datetime | None:
    try:
        return as_utc(parsedate_to_datetime(date)) if date else None
    except _MALFORMED:
        return None
