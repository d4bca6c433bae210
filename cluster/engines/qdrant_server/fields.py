"""Reading JSON objects field by field, so that a field nobody reads is refused by name."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from cluster.engines.qdrant_server.problems import BadRequest, Unsupported

NUMBER = (int, float)


class Fields:
    """One JSON object. Used as a context; on leaving it, fields that were set but not taken raise Unsupported."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise BadRequest(f"{where} must be an object")
        self.where = where
        self._left = {name: field for name, field in value.items() if field is not None}

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._left:
            raise Unsupported(f"not supported here: {self.where}.{min(self._left)}")

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, kind: type | tuple[type, ...] = object, default: Any = None) -> Any:
        """Read an optional field of a type; a bool is no number."""
        value = self._left.pop(name, None)
        if value is None:
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        is_stray_bool = isinstance(value, bool) and bool not in kinds and object not in kinds
        if not isinstance(value, kind) or is_stray_bool:
            expected = " or ".join(one.__name__ for one in kinds)
            raise BadRequest(f"{self.where}.{name} must be {expected}, not {type(value).__name__}")
        return value

    def need(self, name: str, kind: type | tuple[type, ...] = object) -> Any:
        """Read a required field of a type."""
        if name not in self._left:
            raise BadRequest(f"{self.where}.{name} is missing")
        return self.take(name, kind)

    def count(self, name: str, default: int | None = None, *, low: int = 0) -> Any:
        """Read an optional whole number of at least `low`."""
        value = self.take(name, int, default)
        if value is not None and not low <= value < 2**31:
            raise BadRequest(f"{self.where}.{name} must be at least {low}")
        return value

    def fixed(self, **expected: Any) -> None:
        """Accept fields only at the one value this server works with."""
        for name, value in expected.items():
            given = self.take(name)
            if given is not None and given != value:
                raise Unsupported(f"not supported here: {self.where}.{name} other than {value!r}")


def as_list(value: Any) -> list[Any]:
    """One value or a list of them, as the API allows in many places."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
