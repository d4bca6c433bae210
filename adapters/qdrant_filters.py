"""Filters of the vector index: what a reader may see, and what the asker narrows a search to, in Qdrant's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, TypeAlias

from qdrant_client import models

from cortex.evidence import Filters
from cortex.principals import Permit

Condition: TypeAlias = Mapping[str, Any]
Filter: TypeAlias = Mapping[str, Any]

# Up to here a list of ids filters as fast as ranges do; 10,000 ids take twice as long and 100 kB a lane.
MAX_LISTED_PROFILES = 1_000


def permit_filter(permit: Permit) -> Filter:
    """State what a permit allows: its tenant, its access profiles, nothing deleted."""
    return {
        "must": [
            {"key": "tenant_id", "match": {"value": permit.principal.tenant_id}},
            {"key": "is_deleted", "match": {"value": False}},
            _profiles(permit.profile_ids),
        ]
    }


def narrowed(permitted: Filter, filters: Filters) -> Filter:
    """Add the asker's own narrowing to a permit's filter."""
    conditions: list[Condition] = []
    if filters.collections:
        conditions.append(_one_of("collection", filters.collections))
    if filters.source_types:
        conditions.append(_one_of("source_type", filters.source_types))
    since, before = epoch_s(filters.updated_after), epoch_s(filters.updated_before)
    if bounds := {name: at for name, at in (("gte", since), ("lt", before)) if at is not None}:
        conditions.append({"key": "updated_at", "range": bounds})
    return {"must": [*permitted["must"], *conditions]}


def match(key: str, value: str | bool | int) -> models.FieldCondition:
    """State that a field has a value, as the client's model."""
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def epoch_s(moment: datetime | None) -> int | None:
    """State an instant in whole seconds since 1970, as the index stores it."""
    return None if moment is None else int(moment.timestamp())


def _one_of(key: str, values: Sequence[str] | Sequence[int]) -> Condition:
    """State that a field has one of some values."""
    return {"key": key, "match": {"any": list(values)}}


def _profiles(profile_ids: Sequence[int]) -> Condition:
    """List a few profiles; state many as ranges of consecutive ids and a list of the rest."""
    if len(profile_ids) <= MAX_LISTED_PROFILES:
        return _one_of("profile_id", profile_ids)
    singles: list[int] = []
    conditions: list[Condition] = []
    for first, last in consecutive(profile_ids):
        if last - first < 2:
            singles.extend(range(first, last + 1))
        else:
            conditions.append({"key": "profile_id", "range": {"gte": first, "lte": last}})
    if singles:
        conditions.append(_one_of("profile_id", singles))
    return {"should": conditions}


def consecutive(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Split ascending whole numbers into runs, each as its first and last."""
    runs = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        runs.append((members[0], members[-1]))
    return runs
