"""Sentences: a passage cut into the units that an extractive answer quotes, in any script."""

from __future__ import annotations

import re

# An end mark, closing quotes or brackets behind it, then white space; ideographic marks need no space.
_END = re.compile(
    r"""(?<=[.!?…])["'”’)\]]*\s+(?=["'“‘(\[]*[^\W\d_a-z]|["'“‘(\[]*\d)   # not before a lower-case letter
      | (?<=[。！？｡])(?![」』）”’])
      | (?<=[。！？｡][」』）”’])
      | \s*\n\s*\n\s*                                                       # a blank line
      | \n(?=\s*(?:[-*•|]|\d+[.)])\s?)                                      # list items, table rows
    """,
    re.VERBOSE,
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|vs|etc|e\.g|i\.e|cf|No|Nos|Fig|Eq|Inc|Ltd|Co|Corp|approx|U\.S|U\.K)\.$"
)
_MARKER = re.compile(r"^(?:[-*•]\s+|\d+[.)]\s+|#{1,6}\s+|>\s*)+")


def sentences(text: str) -> list[str]:
    """Split a passage into its sentences, list items and rows, white space evened out, in order."""
    pieces: list[str] = []
    for piece in _split(text):
        if pieces and _ABBREVIATION.search(pieces[-1]):
            pieces[-1] = f"{pieces[-1]} {piece}"
        else:
            pieces.append(piece)
    return pieces


def _split(text: str) -> list[str]:
    cut, at = [], 0
    for match in _END.finditer(text):
        cut.append(text[at : match.start()])
        at = match.end()
        if match.group(0).strip():  # closing quotes stay with their sentence
            cut[-1] += match.group(0).strip()
    cut.append(text[at:])
    return [sentence for piece in cut if (sentence := _MARKER.sub("", " ".join(piece.split())))]
