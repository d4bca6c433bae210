"""The documents under test: Markdown files of the project, their links and their code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)


def documents() -> list[Path]:
    """List the project's own documents; the sample company's pages are data."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"]
    return sorted(found)


def prose(path: Path) -> str:
    """Read a document without its code blocks."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def links(path: Path) -> list[str]:
    """List the targets of a document's links that lie in this repository."""
    targets = re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)", prose(path))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def shell_lines(path: Path) -> Iterator[str]:
    """Yield the commands of a document's `bash` blocks, one a line."""
    for language, block in FENCE.findall(path.read_text(encoding="utf-8")):
        if language == "bash":
            yield from (line.strip() for line in block.splitlines() if line.strip())


def anchors(path: Path) -> set[str]:
    """Name a document's headings as they are linked to."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
