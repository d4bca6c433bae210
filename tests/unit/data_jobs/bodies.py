"""Bodies for tests: built from parts as a parser would, or drawn by hypothesis."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

from cortex.documents import Anchor, Block, BlockKind, Document, ParsedBody
from cortex.ids import sha256_hex

_TOKEN = re.compile(r"[\u3040-\u9fff]|\w{1,4}|[^\w\s]")


def count_tokens(text: str) -> int:
    """Count pieces of up to four letters, single marks and single CJK characters: much as WordPiece does."""
    return len(_TOKEN.findall(text))


NOWHERE = Anchor()


@dataclass(frozen=True, slots=True)
class Part:
    """One block to be: its text and structure."""

    text: str
    kind: BlockKind = BlockKind.PARAGRAPH
    path: tuple[str, ...] = ()
    anchor: Anchor = NOWHERE
    speaker: str = ""
    symbol: str = ""
    gap: str = "\n\n"


def parsed(*parts: Part) -> ParsedBody:
    """Put parts together, each followed by its gap."""
    body, blocks = "", []
    for part in parts:
        start = len(body.encode())
        body += part.text
        end = len(body.encode())
        blocks.append(
            Block(
                part.kind,
                part.text,
                start,
                end,
                part.anchor,
                part.path,
                1 if part.kind is BlockKind.HEADING else 0,
                part.speaker,
                part.symbol,
            )
        )
        body += part.gap
    return ParsedBody(body, tuple(blocks))


def document(title: str = "") -> Document:
    """Make a document of that title."""
    return Document("d", "acme", "s", "a.md", "files", title, "text/plain", sha256_hex(b"a"), "file:///a.md")


_TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=400),
    st.text("ab .,;!?\n。、字漢かな\u0301\u200d👩👧", min_size=1, max_size=1500),
    st.integers(1, 6000).map(lambda n: "x" * n),
    st.integers(1, 400).map(lambda n: "Plain words stand here. " * n),
    st.integers(1, 1200).map(lambda n: "漢字仮名交じり文。" * n),
)
_PARTS = st.builds(
    Part,
    text=_TEXTS,
    kind=st.sampled_from(list(BlockKind)),
    path=st.lists(st.sampled_from(["One", "Two", "三"]), max_size=2).map(tuple),
    anchor=st.builds(
        Anchor,
        kind=st.sampled_from(["none", "line", "page", "slide", "row", "second"]),
        start=st.integers(1, 9),
        end=st.integers(9, 20),
        label=st.sampled_from(["", "Q1"]),
    ),
    speaker=st.sampled_from(["", "Ana"]),
    symbol=st.sampled_from(["", "f", "A.g"]),
    gap=st.sampled_from(["\n", "\n\n", " | ", ""]),
)
BODIES = st.lists(_PARTS, max_size=12).map(lambda parts: parsed(*parts))
