"""Files inside files: what a mail carries is parsed like any other file and stands under a heading of its own."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice

from cortex.errors import Unparsable
from data_jobs.parsers import registry
from data_jobs.parsers.body import BodyBuilder

_MAX_DEPTH = 4  # mail in mail in mail: below this nobody reads it, and a bomb would
_MAX_ATTACHMENTS = 100
_depth: ContextVar[int] = ContextVar("depth", default=0)


@dataclass(frozen=True, slots=True)
class Attachment:
    """One file carried by another."""

    name: str
    media_type: str
    content: bytes


def add_attachments(builder: BodyBuilder, attachments: Iterable[Attachment]) -> list[str]:
    """Add the text of each attachment; returns those without usable text, as `name (code)`."""
    skipped = []
    depth = _depth.get()
    token = _depth.set(depth + 1)
    try:
        for attachment in islice(attachments, _MAX_ATTACHMENTS):
            if depth >= _MAX_DEPTH:
                skipped.append(f"{attachment.name} (too deep)")
                continue
            try:
                parsed = registry.parse(attachment.content, attachment.name, attachment.media_type)
            except Unparsable as error:
                skipped.append(f"{attachment.name} ({error.error_code})")
                continue
            builder.heading(f"Attachment: {attachment.name or parsed.title or 'unnamed'}", 2)
            builder.extend(parsed, at_source=False, level_shift=2)
    finally:
        _depth.reset(token)
    return skipped
