"""Text that every store can hold: JSON may smuggle in lone surrogates, which UTF-8 has not, and NUL, which Postgres has not."""

from __future__ import annotations


def storable(text: str) -> str:
    """Write `?` for lone surrogates, and leave NUL out."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")
