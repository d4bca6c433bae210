"""Markdown notes of a vault: the note's own text as the body, with its links, tags, aliases and ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from markdown_it.token import Token

from cortex.documents import ParsedBody
from cortex.edges import Edge, EdgeKind, EdgeSpace, Name
from data_jobs.parsers.body import with_meta
from data_jobs.parsers.dates import parse_milliseconds
from data_jobs.parsers.exact import ExactBuilder, exact_text
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.front_matter import FrontMatter, Scalar, read_front_matter
from data_jobs.parsers.markdown import finish, markdown, render
from data_jobs.parsers.note_links import Grammar, Written, find_links, find_wikilinks

# A hundred times what the largest index page of a real vault has.
MAX_EDGES = 100_000
_ALIAS_KEYS, _TAG_KEYS = ("aliases", "alias"), ("tags", "tag")


def parse_note(content: bytes, name: str) -> ParsedBody:
    """Parse a note of Obsidian, Foam or plain Markdown."""
    return _parse(content, label_first=False)


def parse_dendron_note(content: bytes, name: str) -> ParsedBody:
    """Parse a note of Dendron, which writes a wikilink's label before its target."""
    return _parse(content, label_first=True)


def _parse(content: bytes, *, label_first: bool) -> ParsedBody:
    text, is_exact = exact_text(content)
    front = read_front_matter(text)
    builder = ExactBuilder(text)
    environment: dict[str, Any] = {}
    tokens = markdown().parse(text[front.end :].removeprefix("\ufeff"), environment)
    render(builder, tokens, front.n_lines)
    scalars = list(front.scalars())
    builder.stand_in = _title_span(text, scalars)
    references = environment.get("references", {}).items()
    # A footnote looks like a definition to CommonMark.
    definitions = {label: found["href"] for label, found in references if not label.startswith("^")}
    grammar = Grammar(definitions, label_first)
    written = [*_front_links(text, scalars), *_body_links(builder, tokens, front, grammar)]
    parsed = replace(
        finish(builder, front.values), edges=edges(builder, written), names=_names(builder, scalars)
    )
    return _described(parsed, front, is_exact)


def _title_span(text: str, scalars: list[Scalar]) -> tuple[int, int] | None:
    """Find the title where it is written, without its quotes."""
    title = next((one for one in scalars if one.key == "title" and one.text), None)
    at = text.find(title.text, title.start, title.end) if title else -1
    return (at, at + len(title.text)) if title and at >= 0 else None


def edges(builder: ExactBuilder, written: list[Written]) -> tuple[Edge, ...]:
    """Turn links into edges, in the order of the text; raises Unparsable for more than anybody writes."""
    if len(written) > MAX_EDGES:
        raise unparsable(FailureCode.TOO_LARGE, f"it holds more than {MAX_EDGES:,} links", "split the file")
    at = builder.bytes_at
    return tuple(
        Edge(one.kind, one.space, one.target, at[one.start], at[one.end], one.anchor)
        for one in sorted(written, key=lambda one: (one.start, one.end))
    )


def _body_links(
    builder: ExactBuilder, tokens: list[Token], front: FrontMatter, grammar: Grammar
) -> Iterator[Written]:
    """Look for links wherever there is text: each line once, none in code or in comments."""
    done = 0
    for token in tokens:
        is_comment = token.type == "html_block" and token.content.lstrip().startswith("<!--")
        if token.map is None or token.type not in ("inline", "tr_open", "html_block") or is_comment:
            continue
        first, last = max(token.map[0], done), max(token.map[1], token.map[0] + 1)
        if first < last:
            start, end = builder.lines(front.n_lines + first + 1, front.n_lines + last)
            yield from find_links(builder.source, start, end, grammar)
            done = last


def _front_links(text: str, scalars: list[Scalar]) -> Iterator[Written]:
    """Find tags and wikilinks among the front matter's values."""
    for scalar in scalars:
        if scalar.key in _TAG_KEYS:
            for start, end in _items(text, scalar, ", "):
                if tag := text[start:end].lstrip("#"):
                    yield Written(EdgeKind.TAG, EdgeSpace.TAG, tag, end - len(tag), end)
        else:
            yield from find_wikilinks(text, scalar.start, scalar.end)


def _names(builder: ExactBuilder, scalars: list[Scalar]) -> tuple[Name, ...]:
    """List the note's aliases, and the id that Dendron gives it."""
    names = []
    for scalar in scalars:
        if scalar.key in _ALIAS_KEYS:
            aliases = [scalar.text] if scalar.is_item else scalar.text.split(",")
            names += [Name(EdgeSpace.NOTE, alias.strip()) for alias in aliases if alias.strip()]
        elif scalar.key == "id" and scalar.text:
            names.append(Name(EdgeSpace.ID, scalar.text))
    return tuple(names)


def _items(text: str, scalar: Scalar, separators: str) -> Iterator[tuple[int, int]]:
    """Split a scalar as it is written at separators, without its quotes."""
    start = at = scalar.start
    for at in range(scalar.start, scalar.end + 1):
        if at == scalar.end or text[at] in separators + "\"'":
            if start < at:
                yield start, at
            start = at + 1


def _described(parsed: ParsedBody, front: FrontMatter, is_exact: bool) -> ParsedBody:
    """Add Dendron's dates, and what an operator may want to know of a doubtful note."""
    return with_meta(
        replace(
            parsed,
            created_at=parsed.created_at or parse_milliseconds(front.values.get("created", "")),
            updated_at=parsed.updated_at or parse_milliseconds(front.values.get("updated", "")),
        ),
        front_matter="broken" if front.is_broken else "",
        byte_ranges="" if is_exact else "decoded",
    )
