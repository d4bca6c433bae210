"""Loads the named queries of `sql/*.sql`: each starts with `-- name: …`, then a line that says what it does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from cortex.errors import Misconfigured

_FOLDER = Path(__file__).parent / "sql"
_HEAD = re.compile(r"^-- name: (?P<name>[a-z_]+)\n-- (?P<sentence>.+)\n", re.MULTILINE)


@cache
def queries(file_name: str) -> Mapping[str, bytes]:
    """Read the queries of one file by name, as the bytes that psycopg takes for trusted SQL."""
    text = (_FOLDER / f"{file_name}.sql").read_text()
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    found = {
        head["name"]: text[head.end() : end].strip().rstrip(";").encode()
        for head, end in zip(heads, ends, strict=True)
    }
    if len(found) != len(heads) or text.count("-- name:") != len(heads):
        raise Misconfigured(f"{file_name}.sql has a repeated name or a query without its sentence")
    return MappingProxyType(found)
