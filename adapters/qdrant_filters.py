"""Filters of the vector index: what a reader may see, and what the asker narrows a search to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from qdrant_client import models

from cortex.evidence import Filters
from cortex.principals import Permit

# Up to here a list of ids filters as fast as ranges do; 10,000 ids take twice as long and 100 kB a lane.
MAX_LISTED_PROFILES = 1_000


def permit_filter(permit: Permit) -> models.Filter:
    """State what a permit allows: its tenant, its access profiles, nothing deleted."""
    return models.Filter(
        must=[
            match("tenant_id", permit.principal.tenant_id),
            match("is_deleted", False),
            _profiles(permit.profile_ids),
        ]
    )


def narrowed(permitted: models.Filter, filters: Filters) -> models.Filter:
    """Add the asker's own narrowing to a permit's filter."""
    conditions: list[models.Condition] = []
    if filters.collections:
        conditions.append(match_any("collection", filters.collections))
    if filters.source_types:
        conditions.append(match_any("source_type", filters.source_types))
    if filters.updated_after or filters.updated_before:
        conditions.append(
            models.FieldCondition(
                key="updated_at",
                range=models.Range(gte=epoch_s(filters.updated_after), lt=epoch_s(filters.updated_before)),
            )
        )
    permitted_conditions = permitted.must if isinstance(permitted.must, list) else []
    return models.Filter(must=[*permitted_conditions, *conditions])


def match(key: str, value: str | bool | int) -> models.FieldCondition:
    """State that a field has a value."""
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def match_any(key: str, values: Iterable[str] | Iterable[int]) -> models.FieldCondition:
    """State that a field has one of some values."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))  # type: ignore[arg-type]


def epoch_s(moment: datetime | None) -> int | None:
    """State an instant in whole seconds since 1970, as the index stores it."""
    return None if moment is None else int(moment.timestamp())


def _profiles(profile_ids: Sequence[int]) -> models.Condition:
    """List a few profiles; state many as ranges of consecutive ids and a list of the rest."""
    if len(profile_ids) <= MAX_LISTED_PROFILES:
        return match_any("profile_id", profile_ids)
    singles: list[int] = []
    conditions: list[models.Condition] = []
    for first, last in consecutive(profile_ids):
        if last - first < 2:
            singles.extend(range(first, last + 1))
        else:
            conditions.append(
                models.FieldCondition(key="profile_id", range=models.Range(gte=first, lte=last))
            )
    if singles:
        conditions.append(match_any("profile_id", singles))
    return models.Filter(should=conditions)


def consecutive(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Split ascending whole numbers into runs, each as its first and last."""
    runs = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        runs.append((members[0], members[-1]))
    return runs
