"""The algebra of periods, against sets of instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.periods import ALWAYS, Period, coalesce, subtract_all

DAY_0 = datetime(2025, 1, 1, tzinfo=UTC)
N_DAYS = 10
INSTANTS = [DAY_0 + timedelta(days=day, hours=hour) for day in range(-1, N_DAYS + 1) for hour in (0, 12)]


def day(number: int) -> datetime:
    return DAY_0 + timedelta(days=number)


@st.composite
def periods(draw: st.DrawFn) -> Period:
    """Any period over ten days, with open ends now and then."""
    start = draw(st.none() | st.integers(0, N_DAYS - 1))
    end = draw(st.none() | st.integers((start or 0) + 1, N_DAYS))
    return Period(None if start is None else day(start), None if end is None else day(end))


def covered(*of: Period) -> set[datetime]:
    """The instants that periods cover: the naive reference."""
    return {
        at
        for at in INSTANTS
        for period in of
        if (period.start_at is None or period.start_at <= at)
        and (period.end_at is None or at < period.end_at)
    }


@given(one=periods(), other=periods())
def test_two_periods_behave_as_sets_of_instants(one: Period, other: Period) -> None:
    """Intersection, difference and overlap are those of the sets of instants."""
    shared = one.intersect(other)
    assert (covered(shared) if shared else set()) == covered(one) & covered(other)
    assert covered(*one.subtract(other)) == covered(one) - covered(other)
    assert one.overlaps(other) == bool(covered(one) & covered(other))
    assert {at for at in INSTANTS if one.contains(at)} == covered(one)


@given(one=periods(), others=st.lists(periods(), max_size=5))
def test_many_periods_behave_as_sets_of_instants(one: Period, others: list[Period]) -> None:
    """Subtracting many and coalescing keep exactly the instants they should."""
    left = subtract_all(one, others)
    assert covered(*left) == covered(one) - covered(*others)
    joined = coalesce(others)
    assert covered(*joined) == covered(*others)
    for before, after in pairwise(joined):
        assert before.end_at is not None
        assert after.start_at is not None
        assert before.end_at < after.start_at  # neither overlapping nor meeting


def test_ends_that_meet_share_no_instant() -> None:
    """Periods are half-open: the end belongs to what follows."""
    before, after = Period(day(1), day(2)), Period(day(2), day(3))
    assert not before.overlaps(after)
    assert coalesce([after, before]) == (Period(day(1), day(3)),)


def test_subtracting_everything_leaves_nothing() -> None:
    """Nothing is left of a period without what always was."""
    assert ALWAYS.subtract(ALWAYS) == ()
    assert ALWAYS.subtract(Period(day(1), day(2))) == (Period(None, day(1)), Period(day(2), None))


def test_instants_are_kept_in_utc() -> None:
    """The same stretch written in two zones is the same period."""
    zone = timezone(timedelta(hours=9))
    assert Period(day(1).astimezone(zone), None) == Period(day(1), None)


@pytest.mark.parametrize(
    ("start_at", "end_at"),
    [(day(1), day(1)), (day(2), day(1)), (datetime(2025, 1, 1), None), (None, datetime(2025, 1, 1))],  # noqa: DTZ001
)
def test_empty_backward_and_naive_periods_are_refused(
    start_at: datetime | None, end_at: datetime | None
) -> None:
    """A period that holds no instant, or that does not say in which zone, cannot be made."""
    with pytest.raises(ValueError, match="must"):
        Period(start_at, end_at)
