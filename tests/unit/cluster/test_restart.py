"""When an engine that ended is started again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.restart import HOPELESS, LONGEST_PAUSE_S, LOOP_ENDS, STABLE_S, Row


def row_after(*ready_s: float) -> Row:
    row = Row()
    for spell in ready_s:
        row = row.after_end(spell)
    return row


def test_pauses_double_up_to_the_longest() -> None:
    """The first restart is at once; the pauses then double and end at half a minute."""
    assert [row_after(*[0.0] * n).pause_s for n in range(1, 9)] == [0.2, 1, 2, 4, 8, 16, 30, 30]


def test_five_quick_ends_are_a_loop() -> None:
    """The fifth end in a row without a stable spell is called a crash loop, the fourth is not."""
    assert [row_after(*[0.0] * n).is_loop for n in (LOOP_ENDS - 1, LOOP_ENDS)] == [False, True]


def test_a_stable_spell_begins_a_new_row() -> None:
    """An engine killed again and again, but ready for ten seconds in between, is never called a loop."""
    assert row_after(*[STABLE_S] * 50) == Row(1)


def test_hopeless_is_a_loop_at_once() -> None:
    """A cause that no restart removes is shown as failed at the first end and retried at the longest pause."""
    assert (HOPELESS.is_loop, HOPELESS.pause_s) == (True, LONGEST_PAUSE_S)


@given(st.lists(st.floats(0, 100), max_size=30))
def test_the_row_counts_ends_since_the_last_stable_spell(spells: list[float]) -> None:
    """The count equals the naive one: ends after and including the last stable spell."""
    last = max((i for i, spell in enumerate(spells) if spell >= STABLE_S), default=-1)
    naive = len(spells) if last < 0 else len(spells) - last
    assert row_after(*spells).ends == naive


@pytest.mark.parametrize("ends", range(20))
def test_a_pause_is_bounded(ends: int) -> None:
    """No pause is longer than the longest one, and none is zero."""
    assert 0 < Row(ends).pause_s <= LONGEST_PAUSE_S
