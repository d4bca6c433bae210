"""Answers and passages on a terminal: readable, and safe against what documents may hold."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from cortex.api import AnchorModel, DegradedModel, DoneModel, FragmentModel, LanesModel, SearchResponse
from cortex.documents import source_link
from cortex.errors import Unavailable

_SNIPPET_CHARS = 320
_CITATION = re.compile(r"\[\d{1,3}(?:\s*,\s*\d{1,3})*\]")
# What a document's text may not do: move the cursor, ring, retitle the window, or reorder what is read.
_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_KEPT = frozenset("\n\t\u200c\u200d")  # joiners are letters' business in several scripts


def clean(text: str) -> str:
    """Remove control, formatting and private characters from a text of unknown origin."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in text if c in _KEPT or unicodedata.category(c) not in _FORBIDDEN)


def print_hits(found: SearchResponse, k: int) -> None:
    """Print passages best first, with place, score bars and links."""
    console = Console(highlight=False)
    _print_degraded(console, found.degraded)
    if not found.evidence:
        console.print("Nothing found in what this person may see.", style="yellow")
    for fragment in found.evidence[:k]:
        _print_fragment(console, fragment)
    _print_footer(console, len(found.evidence), "passages", found.timings_ms, found.trace_id)


def print_answer(events: Iterator[tuple[str, dict[str, Any]]]) -> None:
    """Print an answer as it comes, then its sources by number."""
    console = Console(highlight=False)
    writer = _Writer(console)
    for name, data in events:
        if name == "evidence":
            _print_degraded(console, SearchResponse.model_validate(data).degraded)
        elif name == "token":
            writer.write(data["text"])
        elif name == "done":
            writer.finish()
            _print_sources(console, DoneModel.model_validate(data))
            return
    raise Unavailable("the answer broke off", code="answer.incomplete", hint="ask again")


class _Writer:
    """Writes a stream of text, holding back only what may become a citation."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._held = ""

    def write(self, text: str) -> None:
        self._held += clean(text)
        cut = self._held.rfind("[")
        ready = (
            self._held
            if cut < 0 or len(self._held) - cut > 12 or "]" in self._held[cut:]
            else self._held[:cut]
        )
        self._held = self._held[len(ready) :]
        self._print(ready)

    def finish(self) -> None:
        self._print(self._held)
        self._held = ""
        self._console.print()

    def _print(self, text: str) -> None:
        styled = Text(text)
        styled.highlight_regex(_CITATION, "bold cyan")
        self._console.print(styled, end="", soft_wrap=True)


def _print_fragment(console: Console, fragment: FragmentModel) -> None:
    head = Text.assemble(
        (f"{fragment.number:>2}  ", "bold cyan"), (clean(fragment.title) or "Untitled", "bold")
    )
    console.print(head)
    meta = [fragment.source_type, _place(fragment.anchor), _day(fragment.updated_at), _lanes(fragment.lanes)]
    _indented(console, Text(" · ".join(clean(part) for part in meta if part), "dim"))
    text = " ".join(clean(fragment.text).split())
    _indented(console, Text(text if len(text) <= _SNIPPET_CHARS else text[:_SNIPPET_CHARS] + " …"))
    _print_link(console, fragment.permalink, fragment.anchor)
    console.print()


def _print_sources(console: Console, done: DoneModel) -> None:
    if done.citations:
        console.print("\n[dim]Sources[/]")
    for citation in {each.number: each for each in done.citations}.values():
        place = _place(citation.anchor)
        line = Text.assemble((f"[{citation.number}] ", "bold cyan"), clean(citation.title) or "Untitled")
        if place:
            line.append(f", {clean(place)}", "dim")
        console.print(line)
        _print_link(console, citation.permalink, citation.anchor)
    said = {
        "generated": f"written by {done.model}",
        "extractive": "sentences of the sources, unchanged",
        "abstained": "not answered: the evidence does not support an answer",
    }
    _print_footer(
        console, len(done.citations), "citations", done.timings_ms, done.trace_id, said.get(done.mode, "")
    )


def _print_link(console: Console, permalink: str, anchor: AnchorModel) -> None:
    link = source_link(clean(permalink), anchor.kind, clean(anchor.fragment))
    if not link:
        return
    is_web = urlsplit(link).scheme in ("http", "https")
    style = f"blue underline link {link}" if is_web and " " not in link else "blue"
    console.print(Text.assemble("    ", (link, style)), soft_wrap=True)  # a wrapped link cannot be followed


def _print_degraded(console: Console, degraded: list[DegradedModel]) -> None:
    for each in degraded:
        console.print(f"[yellow]degraded[/] {escape(clean(each.part))}: {escape(clean(each.reason))}")


def _print_footer(
    console: Console, n: int, noun: str, timings_ms: dict[str, float], trace_id: str, said: str = ""
) -> None:
    total_ms = timings_ms.get("total", sum(timings_ms.values()))
    parts = [f"{n} {noun if n != 1 else noun[:-1]}", f"{total_ms:.0f} ms", said, f"trace {trace_id}"]
    console.print()
    console.print(Text(" · ".join(clean(part) for part in parts if part), "dim"), soft_wrap=True)


def _indented(console: Console, text: Text) -> None:
    for line in text.wrap(console, max(console.width - 4, 20)):
        line.rstrip()
        console.print(Text("    ").append_text(line), soft_wrap=True)


def _place(anchor: AnchorModel) -> str:
    span = f"{anchor.start}-{anchor.end}" if anchor.end > anchor.start else f"{anchor.start}"
    match anchor.kind:
        case "line" | "page" | "message":
            return f"{anchor.kind}{'s' if anchor.end > anchor.start else ''} {span}"
        case "slide":
            return f"slide {anchor.start}"
        case "row":
            return f"{anchor.label + ', ' if anchor.label else ''}rows {span}"
        case "second":
            return f"at {anchor.start // 60}:{anchor.start % 60:02d}"
        case _:
            return ""


def _lanes(lanes: LanesModel) -> str:
    ranks = [("meaning", lanes.dense_rank), ("words", lanes.bm25_rank)]
    return ", ".join(f"{name} #{rank}" for name, rank in ranks if rank is not None)


def _day(instant: datetime | None) -> str:
    return f"{instant:%Y-%m-%d}" if instant else ""
