"""Resemblance: the filtered search for a similar set gives what comparing with every set gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retrieval.resemble import Resembling, resemblance

SETS = st.lists(st.frozensets(st.integers(0, 12), min_size=1, max_size=12), max_size=25)


def compared_with_all(sets: list[frozenset[int]], threshold: float) -> list[int | None]:
    kept: list[frozenset[int]] = []
    found: list[int | None] = []
    for members in sets:
        first = next((n for n, other in enumerate(kept) if resemblance(members, other) >= threshold), None)
        found.append(first)
        if first is None:
            kept.append(members)
    return found


@given(SETS, st.sampled_from([0.5, 0.6, 0.75, 0.8, 0.85, 0.9, 1.0]))
def test_the_filter_misses_nothing_and_invents_nothing(sets: list[frozenset[int]], threshold: float) -> None:
    """For any sets and threshold each set is assigned to the same earlier one as by comparing all pairs."""
    resembling = Resembling(threshold)
    assert [resembling.find_or_add(members) for members in sets] == compared_with_all(sets, threshold)
