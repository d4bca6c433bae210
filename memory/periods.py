"""Periods: half-open stretches of UTC time with open ends, and their algebra."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

# Stand-ins that order open ends; no instant of a source lies at or beyond them.
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """The instants from `start_at` up to, not including, `end_at`; None means without beginning or end.

    Instants are aware and kept in UTC. A period is never empty: raises ValueError otherwise.
    """

    start_at: datetime | None = None
    end_at: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("start_at", "end_at"):
            at: datetime | None = getattr(self, name)
            if at is not None:
                if at.tzinfo is None:
                    raise ValueError(f"{name} must be aware")
                object.__setattr__(self, name, at.astimezone(UTC))
        if not self._first < self._last:
            raise ValueError("a period must end after it starts")

    @property
    def _first(self) -> datetime:
        return self.start_at or _BEGINNING

    @property
    def _last(self) -> datetime:
        return self.end_at or _FOREVER

    def contains(self, at: datetime) -> bool:
        """Say whether an instant lies within."""
        return self._first <= at < self._last

    def overlaps(self, other: Period) -> bool:
        """Say whether the two share an instant; meeting ends share none."""
        return self._first < other._last and other._first < self._last

    def intersect(self, other: Period) -> Period | None:
        """Return what both cover; None when they share no instant."""
        return _between(max(self._first, other._first), min(self._last, other._last))

    def subtract(self, other: Period) -> tuple[Period, ...]:
        """Return what this covers and the other does not: none, one or two periods, in order."""
        if not self.overlaps(other):
            return (self,)
        overhangs = _between(self._first, other._first), _between(other._last, self._last)
        return tuple(period for period in overhangs if period is not None)


ALWAYS = Period()


def subtract_all(period: Period, others: Iterable[Period]) -> tuple[Period, ...]:
    """Return what a period covers and none of the others does, in order."""
    left: tuple[Period, ...] = (period,)
    for other in others:
        left = tuple(piece for part in left for piece in part.subtract(other))
    return left


def coalesce(periods: Iterable[Period]) -> tuple[Period, ...]:
    """Return the fewest periods that cover the same instants, in order: those that overlap or meet become one."""
    joined: list[Period] = []
    for period in sorted(periods, key=lambda each: (each._first, each._last)):
        if joined and period._first <= joined[-1]._last:
            whole = _between(joined[-1]._first, max(joined[-1]._last, period._last))
            assert whole is not None  # two periods that are not empty
            joined[-1] = whole
        else:
            joined.append(period)
    return tuple(joined)


def _between(first: datetime, last: datetime) -> Period | None:
    if not first < last:
        return None
    return Period(None if first == _BEGINNING else first, None if last == _FOREVER else last)
