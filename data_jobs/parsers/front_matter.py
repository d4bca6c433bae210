"""YAML front matter: its plain values, and where in the file each of its scalars stands.

Only PyYAML's safe constructors run. Aliases stay references and nothing is expanded, so a bomb costs what its text costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from data_jobs.parsers.dates import as_utc

_FRONT_MATTER = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_MAX_CHARS = 20_000
_MAX_VALUES = 100
_MAX_SCALARS = 10_000


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of a top-level key, a list's items one by one: its text, and its half-open span in the file."""

    key: str
    text: str
    start: int
    end: int
    is_item: bool = False


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands between the fences: values by lower-case key, how far it reaches, and whether it is broken."""

    values: Mapping[str, str] = field(default_factory=dict)
    yaml: str = ""
    yaml_start: int = 0
    end: int = 0
    n_lines: int = 0
    is_broken: bool = False

    def scalars(self) -> Iterator[Scalar]:
        """List the scalars with their places; none when the front matter is broken."""
        if self.yaml and not self.is_broken:
            yield from _scalars(self.yaml, self.yaml_start)


def read_front_matter(text: str) -> FrontMatter:
    """Read a file's front matter; an empty one when it has none or an enormous one."""
    match = _FRONT_MATTER.match(text)
    if match is None or len(match["yaml"]) > _MAX_CHARS:
        return FrontMatter()
    import yaml

    try:
        loaded = yaml.safe_load(match["yaml"])
    except (yaml.YAMLError, ValueError, RecursionError):
        loaded = None
    values = _plain_values(loaded) if isinstance(loaded, Mapping) else {}
    is_broken = bool(match["yaml"].strip()) and not isinstance(loaded, Mapping)
    n_lines = text.count("\n", 0, match.end())
    return FrontMatter(values, match["yaml"], match.start("yaml"), match.end(), n_lines, is_broken)


def _plain_values(loaded: Mapping[Any, Any]) -> dict[str, str]:
    found = {}
    for key, value in loaded.items():
        values = value if isinstance(value, list) else [value]
        plain = [text for item in values[:_MAX_VALUES] if (text := _plain(item))]
        if plain:
            found[str(key).lower()] = ", ".join(plain)
    return found


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        instant = as_utc(value)
        return instant.isoformat() if instant else ""
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, str | int | float) else ""


def _scalars(text: str, offset: int) -> Iterator[Scalar]:
    import yaml

    root = yaml.compose(text, yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    n_left = _MAX_SCALARS
    for key, value in pairs:
        is_list = isinstance(value, yaml.SequenceNode)
        nodes = value.value if is_list else [value]
        for node in nodes[:n_left]:
            if isinstance(key, yaml.ScalarNode) and isinstance(node, yaml.ScalarNode):
                start, end = node.start_mark.index + offset, node.end_mark.index + offset
                yield Scalar(key.value.lower(), node.value, start, end, is_list)
        n_left -= len(nodes)
