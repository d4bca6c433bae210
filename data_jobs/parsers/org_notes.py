"""Org files of a vault, as org-roam reads them: ids, aliases, references and tags of the file and of its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from cortex.documents import ParsedBody
from cortex.edges import EdgeKind, EdgeSpace, Name
from data_jobs.parsers.body import with_meta
from data_jobs.parsers.exact import ExactBuilder, exact_text
from data_jobs.parsers.note_links import Grammar, Written, destination, wikilink
from data_jobs.parsers.notes import edges
from data_jobs.parsers.org import plain, read_org

_LINE = re.compile(r"[^\n]*\n?")
_HEADING = re.compile(r"(?P<stars>\*+)[ \t]+(?P<title>.*?)[ \t]*(?P<tags>:[^\s:]+(?::[^\s:]+)*:)?[ \t\r]*$")
_PROPERTY = re.compile(r"[ \t]*:(?P<name>[\w-]+)\+?:[ \t]*(?P<value>.*?)[ \t\r]*$")
_KEYWORD = re.compile(r"#\+(?P<name>\w+):[ \t]*(?P<value>.*?)[ \t\r]*$")
_BEGIN = re.compile(r"[ \t]*#\+begin_(src|example|export|comment)\b", re.I)
_END = re.compile(r"[ \t]*#\+end_(src|example|export|comment)\b", re.I)
_LINK = re.compile(
    r"\[\[(?P<target>[^\[\]\n]{1,2000})\](?:\[(?P<text>[^\[\]\n]*)\])?\]|\[cite[^:\]]{0,40}:(?P<cite>[^\]\n]{1,1000})\]"
)
_VERBATIM = re.compile(r"(?<![\w])([=~])\S(?:[^\n]{0,2000}?\S)?\1(?!\w)")
_CITED = re.compile(r"@[\w:.#$%&+?<>~/-]+")
_WORD = re.compile(r'"(?P<quoted>[^"\n]*)"|(?P<bare>\S+)')
_ALIAS_RANK, _TITLE_RANK = 0, 1


def parse_org_note(content: bytes, name: str) -> ParsedBody:
    """Parse an Org file with its links and names."""
    text, is_exact = exact_text(content)
    builder = ExactBuilder(text)
    reader = _Nodes(builder)
    for match in _LINE.finditer(text):
        reader.read(match.group().rstrip("\n"), match.start())
    builder.stand_in = reader.title_span
    parsed = replace(read_org(text, builder), edges=edges(builder, reader.written), names=tuple(reader.names))
    return with_meta(parsed, byte_ranges="" if is_exact else "decoded")


class _Nodes:
    """Gathers the nodes of one file, line by line: the file itself, and each heading that has an id."""

    def __init__(self, builder: ExactBuilder) -> None:
        self._builder = builder
        self.written: list[Written] = []
        self.names: list[Name] = []
        self.title_span: tuple[int, int] | None = None
        self._heading: tuple[str, int] | None = None  # title and position of the heading above
        self._in_code = False
        self._in_properties = False

    def read(self, line: str, start: int) -> None:
        """Read one line, which begins at a position of the file."""
        if self._in_code:
            self._in_code = _END.match(line) is None
        elif self._in_properties:
            self._property(line, start)
        elif line.strip().lower() == ":properties:":
            self._in_properties = True
        elif _BEGIN.match(line):
            self._in_code = True
        elif keyword := _KEYWORD.match(line):
            self._keyword(keyword, start)
        elif not line.startswith("# "):
            if heading := _HEADING.match(line):
                self._heading = plain(heading["title"]), start
                self._tags(heading["tags"] or "", start + heading.start("tags"))
            self._links(line, start)

    def _property(self, line: str, start: int) -> None:
        if line.strip().lower() == ":end:" or line.startswith("*"):
            self._in_properties = False
        elif match := _PROPERTY.match(line):
            value, at = match["value"], self._builder.bytes_at[self._heading[1]] if self._heading else 0
            match match["name"].lower():
                case "id" if value:
                    self.names.append(Name(EdgeSpace.ID, value, byte_start=at))
                    if self._heading and self._heading[0]:
                        self.names.append(Name(EdgeSpace.NOTE, self._heading[0], _TITLE_RANK, at))
                case "roam_aliases" | "roam_alias":
                    self.names += [Name(EdgeSpace.NOTE, word, _ALIAS_RANK, at) for word in _words(value)]
                case "roam_refs" | "roam_key":
                    self.names += [
                        Name(EdgeSpace.REFERENCE, _reference(word), 0, at) for word in _words(value)
                    ]
                case _:
                    pass

    def _keyword(self, keyword: re.Match[str], start: int) -> None:
        value = keyword["value"]
        match keyword["name"].lower():
            case "title" if value:
                self.names.append(Name(EdgeSpace.NOTE, plain(value), _TITLE_RANK))
                self.title_span = start + keyword.start("value"), start + keyword.end("value")
            case "filetags":
                self._tags(value, start + keyword.start("value"))
            case "roam_tags":
                self._tags(value, start + keyword.start("value"))
            case "roam_alias":
                self.names += [Name(EdgeSpace.NOTE, word, _ALIAS_RANK) for word in _words(value)]
            case "roam_key":
                self.names += [Name(EdgeSpace.REFERENCE, _reference(word)) for word in _words(value)]
            case _:
                pass

    def _tags(self, text: str, start: int) -> None:
        for match in re.finditer(r"[^\s:]+", text):
            span = start + match.start(), start + match.end()
            self.written.append(Written(EdgeKind.TAG, EdgeSpace.TAG, match.group(), *span))

    def _links(self, line: str, start: int) -> None:
        verbatim = [match.span() for match in _VERBATIM.finditer(line)] if "=" in line or "~" in line else []
        for match in _LINK.finditer(line):
            if not any(first < match.start() and match.end() < last for first, last in verbatim):
                self.written += _written(match, start + match.start(), start + match.end())


def _written(match: re.Match[str], start: int, end: int) -> Iterator[Written]:
    """Read one link; a search within the same file is none."""
    if cited := match["cite"]:
        for key in _CITED.findall(cited):
            yield Written(EdgeKind.REFERENCE, EdgeSpace.REFERENCE, key, start, end)
        return
    kind, _, target = match["target"].partition(":")
    target, _, anchor = target.partition("::")
    match kind.lower():
        case "id":
            yield Written(EdgeKind.ID, EdgeSpace.ID, target.strip(), start, end, anchor)
        case "roam":
            yield from wikilink(target, False, start, end, Grammar({}))
        case "file":
            yield from (replace(one, anchor=anchor) for one in destination(target, False, start, end))
        case "http" | "https":
            yield Written(EdgeKind.REFERENCE, EdgeSpace.REFERENCE, match["target"], start, end)
        case "cite":
            key = f"@{target.lstrip('@&')}"
            yield Written(EdgeKind.REFERENCE, EdgeSpace.REFERENCE, key, start, end)
        case _ if kind.startswith(("./", "../", "/")):
            yield from destination(match["target"].partition("::")[0], False, start, end)
        case _:
            return


def _words(text: str) -> list[str]:
    """Split a property at spaces; quotes hold words together."""
    found = (match["quoted"] or match["bare"] for match in _WORD.finditer(text))
    return [word for word in found if word]


def _reference(word: str) -> str:
    """Write a URL as it is, and a citation in any of its forms as `@key`."""
    cite = re.fullmatch(r"(?:\[?cite[^:]*:)?[@&]?([^\]]+)\]?", word)
    is_citation = word.startswith(("cite:", "[cite", "@", "&"))
    return f"@{cite[1]}" if cite and is_citation else word
