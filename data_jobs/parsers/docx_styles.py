"""Word's styles and numbering: which paragraph is a heading, and what stands before a list item (`a)`, `2.1`, a bullet)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from data_jobs.parsers.archive import attribute, child, descendants, local

_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_CODE = re.compile(r"code|source|preformatted|listing|macro text", re.IGNORECASE)
_MAX_BASED_ON = 20
_BULLETS = frozenset({"bullet", "none"})


@dataclass(frozen=True, slots=True)
class Style:
    """What a paragraph's style and own properties say about it."""

    heading_level: int = 0
    is_title: bool = False
    is_code: bool = False
    num_id: str = ""
    num_level: int = 0


class Styles:
    """The styles of one document, by id."""

    def __init__(self, root: Any | None) -> None:
        elements = root if root is not None else ()
        self._elements = {attribute(e, "styleId"): e for e in elements if local(e) == "style"}
        self._known: dict[str, Style] = {}

    def of(self, paragraph: Any) -> Style:
        """Return the effective style of a paragraph."""
        own = child(paragraph, "pPr")
        if own is None:
            return Style()
        named = child(own, "pStyle")
        style = self._named(attribute(named, "val")) if named is not None else Style()
        level, numbers = _outline_level(own), _numbers(own)
        num_id, num_level = numbers or (style.num_id, style.num_level)
        return Style(level or style.heading_level, style.is_title, style.is_code, num_id, num_level)

    def _named(self, style_id: str) -> Style:
        if style_id not in self._known:
            self._known[style_id] = self._read(style_id)
        return self._known[style_id]

    def _read(self, style_id: str) -> Style:
        """Follow the chain of styles it is based on until each property is found."""
        heading, is_title, is_code = 0, False, False
        numbers: tuple[str, int] | None = None
        for _ in range(_MAX_BASED_ON):
            element = self._elements.get(style_id)
            if element is None:
                break
            name = _value(child(element, "name"))
            match = _HEADING.fullmatch(name)
            is_title = is_title or name.lower() == "title"
            is_code = is_code or _CODE.search(name) is not None
            heading = heading or (int(match.group(1)) if match else 1 if name.lower() == "title" else 0)
            own = child(element, "pPr")
            if own is not None:
                heading = heading or _outline_level(own)
                numbers = numbers or _numbers(own)
            style_id = _value(child(element, "basedOn"))
        return Style(heading, is_title, is_code, *(numbers or ("", 0)))


@dataclass(slots=True)
class _Level:
    kind: str = "decimal"
    pattern: str = ""
    start: int = 1


@dataclass(slots=True)
class _List:
    """One numbered list: its levels and how far each has counted. Lists of one definition count together."""

    levels: dict[int, _Level] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """The numbering definitions of one document; it counts while paragraphs are read in order."""

    def __init__(self, root: Any | None) -> None:
        elements = list(root) if root is not None else []
        abstract = {
            attribute(e, "abstractNumId"): _List(_levels(e)) for e in elements if local(e) == "abstractNum"
        }
        self._lists: dict[str, _List] = {}
        for element in elements:
            if local(element) == "num":
                shared = abstract.get(_value(child(element, "abstractNumId")), _List())
                # An override restarts: such a list counts for itself.
                is_own = next(descendants(element, "startOverride"), None) is not None
                self._lists[attribute(element, "numId")] = _List(shared.levels) if is_own else shared

    def marker(self, paragraph: Any, style: Style) -> str:
        """Count a paragraph and return its indented marker; empty if it is not in a list."""
        if not style.num_id or style.num_id == "0":
            return ""
        listing = self._lists.setdefault(style.num_id, _List())
        depth = style.num_level
        level = listing.levels.get(depth, _Level("bullet"))
        listing.counts[depth] = listing.counts.get(depth, level.start - 1) + 1
        for deeper in [d for d in listing.counts if d > depth]:
            del listing.counts[deeper]
        indent = "  " * min(depth, 11)
        if level.kind in _BULLETS:
            return f"{indent}- "
        return f"{indent}{_number(listing, depth)} "


def _number(listing: _List, depth: int) -> str:
    def count(match: re.Match[str]) -> str:
        at = int(match.group(1)) - 1
        level = listing.levels.get(at, _Level())
        return _written(listing.counts.get(at, level.start), level.kind)

    pattern = listing.levels[depth].pattern or f"%{depth + 1}."
    return re.sub(r"%([1-9])", count, pattern)


def _written(number: int, kind: str) -> str:
    if kind in ("lowerLetter", "upperLetter"):
        letter = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1 if number < 1000 else 1)
        return letter if kind == "lowerLetter" else letter.upper()
    if kind in ("lowerRoman", "upperRoman"):
        return _roman(number) if kind == "upperRoman" else _roman(number).lower()
    return str(number)


def _roman(number: int) -> str:
    if not 0 < number < 4000:
        return str(number)
    written = ""
    for value, sign in zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"],
        strict=True,
    ):
        written += sign * (number // value)
        number %= value
    return written


def _levels(abstract: Any) -> dict[int, _Level]:
    levels = {}
    for element in abstract:
        depth = attribute(element, "ilvl")
        if local(element) == "lvl" and depth.isdigit():
            start = _value(child(element, "start"))
            levels[int(depth)] = _Level(
                _value(child(element, "numFmt")) or "decimal",
                _value(child(element, "lvlText")),
                int(start) if start.isdigit() else 1,
            )
    return levels


def _outline_level(properties: Any) -> int:
    level = _value(child(properties, "outlineLvl"))
    return int(level) + 1 if level.isdigit() and int(level) < 9 else 0


def _numbers(properties: Any) -> tuple[str, int] | None:
    numbers = child(properties, "numPr")
    if numbers is None:
        return None
    level = _value(child(numbers, "ilvl"))
    return _value(child(numbers, "numId")), int(level) if level.isdigit() and len(level) < 3 else 0


def _value(element: Any | None) -> str:
    return attribute(element, "val") if element is not None else ""
