"""Links in the text of Markdown notes, with their places: wikilinks, embeds, Markdown links, definitions, URLs, tags.

Read from the source rather than from rendered tokens, which no longer say where they stood. Code and comments hold no
links. The grammar is CommonMark's for `[…](…)` and `[…][…]`, Obsidian's and Foam's for `[[…]]` and tags.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from markdown_it.common.utils import normalizeReference

from cortex.edges import EdgeKind, EdgeSpace

_TOKEN = re.compile(
    r"""\\[!-/:-@\[-`{-~]
      | (?P<ticks>`+)
      | (?P<wiki>!?\[\[(?P<inner>[^\[\]\n]{1,1000})\]\](?!\())
      | (?P<open>!?\[)
      | (?P<inline>\]\([ \t\n]*(?P<dest><[^<>\n]{0,2000}>|(?:[^\s()\\<]|\\.|\([^\s()]*\))(?:[^\s()\\]|\\.|\([^\s()]*\)){0,2000})
            (?:[ \t\n]+(?:"[^"]*"|'[^']*'|\([^()]*\)))?[ \t\n]*\))
      | (?P<full>\]\[(?P<label>[^\[\]]{0,1000})\])
      | (?P<close>\])
      | (?P<auto><https?://[^\s<>]{1,2000}>)
      | <!--.*?-->
      | (?P<tag>(?<!\S)\#[^\s!-,.:-@\[-^`{-~\u2000-\u206f\u3000-\u303f]{1,200})
    """,
    re.VERBOSE | re.DOTALL,
)
_MAX_NESTING = 100
_WIKI = re.compile(r"!?\[\[(?P<inner>[^\[\]\n]{1,1000})\]\]")
_PIPE = re.compile(r"\\?\|")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):|//")
_ATTACHMENT = re.compile(
    r"\.(?:png|jpe?g|gif|webp|svg|bmp|ico|avif|heic|tiff?|mp3|wav|m4a|ogg|flac|3gp|mp4|webm|mov|mkv|ogv|avi)$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Written:
    """A link as found: half-open character positions in the file, and its own words."""

    kind: EdgeKind
    space: EdgeSpace
    target: str
    start: int
    end: int
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Grammar:
    """How one file's links are read: its reference definitions (label to URL), and where a wikilink's label stands."""

    definitions: Mapping[str, str]
    label_first: bool = False


def find_links(text: str, start: int, end: int, grammar: Grammar) -> Iterator[Written]:
    """Find the links in `text[start:end]`, one block of a note, in the order in which they end."""
    # Where a bracket opens, where its text begins, is it an embed; a hostile line of brackets keeps the last few.
    opened: deque[tuple[int, int, bool]] = deque(maxlen=_MAX_NESTING)
    unclosed: set[str] = set()
    at = start
    while match := _TOKEN.search(text, at, end):
        at = match.end()
        if ticks := match["ticks"]:
            at = _end_of_code(text, ticks, at, end, unclosed)
        elif match["wiki"]:
            yield from wikilink(match["inner"], match["wiki"].startswith("!"), *match.span(), grammar)
        elif match["open"]:
            opened.append((match.start(), at, match["open"] == "!["))
        elif tag := match["tag"]:
            if not tag[1:].isdigit() and tag.strip("#/-"):
                yield Written(EdgeKind.TAG, EdgeSpace.TAG, tag[1:], *match.span())
        elif auto := match["auto"]:
            yield Written(EdgeKind.REFERENCE, EdgeSpace.REFERENCE, auto[1:-1], *match.span())
        elif opened and (match["inline"] or match["full"] or match["close"]):
            opening, inside, is_embed = opened.pop()
            target = match["dest"]
            if target is None:
                label = match["label"] or text[inside : match.start()]
                target = grammar.definitions.get(normalizeReference(label)) if len(label) <= 1_000 else None
            if target is not None:
                yield from destination(target, is_embed, opening, at)


def find_wikilinks(text: str, start: int, end: int) -> Iterator[Written]:
    """Find the wikilinks in `text[start:end]`, a value of the front matter."""
    for match in _WIKI.finditer(text, start, end):
        is_embed = match.group().startswith("!")
        yield from wikilink(match["inner"], is_embed, *match.span(), Grammar({}))


def wikilink(inner: str, is_embed: bool, start: int, end: int, grammar: Grammar) -> Iterator[Written]:
    """Read what stands between double brackets; a link within the same note is none."""
    parts = [part.strip() for part in _PIPE.split(inner)]
    written = parts[-1] if grammar.label_first else parts[0]
    definition = grammar.definitions.get(normalizeReference(inner))
    if definition is not None:
        yield from destination(definition, is_embed, start, end)
        return
    written = re.sub(r"^dendron://[^/]*/", "", written)
    separator = "#" if "#" in written else "^"
    target, _, anchor = written.partition(separator)
    anchor = f"^{anchor}" if separator == "^" and anchor else anchor
    target = target.strip()
    if not target:
        return
    space = EdgeSpace.PATH if target.startswith(("/", "./", "../")) else EdgeSpace.NOTE
    space = EdgeSpace.ATTACHMENT if _ATTACHMENT.search(target) else space
    yield Written(_kind(is_embed, anchor), space, target, start, end, anchor.strip())


def destination(url: str, is_embed: bool, start: int, end: int) -> Iterator[Written]:
    """Read the target of a Markdown link: a URL, or a path from the note's folder or from the root."""
    url = _ESCAPE.sub(r"\1", url[1:-1] if url.startswith("<") else url).strip()
    if scheme := _SCHEME.match(url):
        if (scheme[1] or "").lower() in ("http", "https"):
            yield Written(EdgeKind.REFERENCE, EdgeSpace.REFERENCE, url, start, end)
        return
    path, _, anchor = url.partition("#")
    path = path.partition("?")[0]
    if path:
        space = EdgeSpace.ATTACHMENT if _ATTACHMENT.search(unquote(path)) else EdgeSpace.PATH
        yield Written(_kind(is_embed, anchor), space, path, start, end, unquote(anchor))


def _kind(is_embed: bool, anchor: str) -> EdgeKind:
    if is_embed:
        return EdgeKind.EMBED
    return EdgeKind.BLOCK if anchor.startswith("^") else EdgeKind.LINK


def _end_of_code(text: str, ticks: str, at: int, end: int, unclosed: set[str]) -> int:
    """Return where a code span ends; backticks that are never closed are text, and looked for once."""
    if ticks not in unclosed:
        closing = re.compile(rf"(?<!`){ticks}(?!`)").search(text, at, end)
        if closing:
            return closing.end()
        unclosed.add(ticks)
    return at
