"""How tuples are laid out in SpiceDB."""

from __future__ import annotations

from collections import Counter

import pytest

from adapters.spicedb.slices import N_SLICES, lay_out, read_back, sliced_schema, view_permission
from cortex.ports.outbox import Relationship

ROWS = [
    Relationship("group", "t/g", "member", "user", "t/ann"),
    Relationship("group", "t/g", "member", "group", "t/h", "member"),
    Relationship("profile", "t/1", "viewer", "user", "t/ann"),
    Relationship("profile", "t/1", "denied", "group", "t/g", "member"),
    Relationship("document", "t/d", "access", "profile", "t/1"),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_tuple_has_a_place_and_comes_back(row: Relationship) -> None:
    """What is stored names a relation of the schema and reads back as what was said."""
    stored = lay_out(row)
    assert f"relation {stored.relation}: {stored.subject_type}" in sliced_schema()
    assert read_back(stored) == row


def test_a_person_is_checked_where_they_are_written() -> None:
    """The permission that a check names is of the slice that a person's tuples are in."""
    stored = lay_out(ROWS[0])
    slice_of_ann = stored.relation.removeprefix("member_")
    assert view_permission("t/ann") == f"view_{slice_of_ann}"
    assert f"permission view_{slice_of_ann} = access->view_{slice_of_ann}" in sliced_schema()


def test_people_spread_evenly() -> None:
    """Of ten thousand people no slice holds twice its share."""
    sizes = Counter(view_permission(f"company/person{number}@company.example") for number in range(10_000))
    assert len(sizes) == N_SLICES
    assert max(sizes.values()) < 2 * 10_000 / N_SLICES
