"""Values that cross between processes by the hundred, pickled quickly.

A frozen dataclass with slots is pickled by a Python loop over its fields, on both sides: of two hundred candidates, 4 ms.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

A = TypeVar("A", bound=type)


def crossing(kind: A) -> A:
    """Let a dataclass of two fields or more be pickled as a call of itself with its fields in order."""
    read = attrgetter(*(each.name for each in fields(kind)))

    def reduce(value: object) -> tuple[type, Any]:
        return kind, read(value)

    kind.__reduce__ = reduce  # type: ignore[assignment]
    return kind
