"""Dates found inside documents -> aware UTC instants; anything doubtful is no date."""

from __future__ import annotations

import re
from datetime import UTC, datetime


def parse_date(text: str) -> datetime | None:
    """Read an ISO 8601 date or instant; one without a zone counts as UTC."""
    text = text.strip()
    try:
        return as_utc(datetime.fromisoformat(text)) if 4 < len(text) < 40 else None
    except ValueError:
        return None


def parse_milliseconds(text: str) -> datetime | None:
    """Read milliseconds since 1970, 2001 or later, as Dendron writes its dates."""
    is_instant = re.fullmatch(r"1\d{12}", text) is not None
    return datetime.fromtimestamp(int(text) / 1000, UTC) if is_instant else None


def as_utc(instant: datetime) -> datetime | None:
    """Convert to UTC; None if the result leaves the calendar."""
    try:
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
