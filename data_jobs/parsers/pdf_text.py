"""Repairs of PDF text: ligatures, invisible hyphens, and Arabic ligatures whose letters come out in reverse."""

from __future__ import annotations

import re
from typing import Protocol

_LIGATURES = str.maketrans(
    {
        "ﬀ": "ff",
        "ﬁ": "fi",
        "ﬂ": "fl",
        "ﬃ": "ffi",
        "ﬄ": "ffl",
        "ﬅ": "st",
        "ﬆ": "st",
        "\u00ad": None,
        "\u00a0": " ",
    }
)
# PDFium writes these for a hyphen at a line end that belongs to the layout, not to the word.
_SOFT_HYPHEN = re.compile("[\ufffe\x02]")
SOFT_HYPHEN = "\ufffe"
# Bullets of symbol fonts come out as private-use or control characters.
_SYMBOL_BULLET = re.compile("^[\x80-\x9f\ue000-\uf8ff](?=\\s)")
_ALEFS = "\u0627\u0623\u0625\u0622"
_REVERSED_LAM_ALEF = re.compile(f"[{_ALEFS}]\u0644")


class Origins(Protocol):
    """Where characters of a page are drawn, by their index in its text."""

    def origin(self, index: int) -> tuple[float, float]: ...


def repair(text: str, first: int, origins: Origins) -> str:
    """Repair one line, whose first character has index `first` in the page's text."""
    if text.isascii():
        return text
    text = _SYMBOL_BULLET.sub("•", text)
    for match in reversed(list(_REVERSED_LAM_ALEF.finditer(text))):
        at = match.start()
        # Two letters drawn at one point are one glyph, the lam-alef ligature, taken apart backwards.
        if origins.origin(first + at) == origins.origin(first + at + 1):
            text = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    ends_softly = text.endswith(("\ufffe", "\x02"))
    text = _SOFT_HYPHEN.sub("", text).translate(_LIGATURES)
    return text + SOFT_HYPHEN if ends_softly else text
