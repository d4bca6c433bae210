"""The timeline of one slot, against a naive reference over discrete instants."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.periods import Period
from memory.timeline import Entry, Fact, Recorded, Retracted, Slot, Timeline, Undone

SLOT = Slot("canteen", "opens")
DAY_0 = datetime(2025, 1, 1, tzinfo=UTC)
N_DAYS = 6


def day(number: int) -> datetime:
    return DAY_0 + timedelta(days=number)


DAYS = [day(number) for number in range(-1, N_DAYS + 2)]


def fact(
    fact_id: str, value: str, stated: int = 0, start: int | None = None, end: int | None = None, **more: int
) -> Fact:
    valid = Period(None if start is None else day(start), None if end is None else day(end))
    return Fact(fact_id, SLOT, value, f"source-{fact_id}", day(stated), valid, **more)  # type: ignore[arg-type]


def ids(timeline: Timeline, valid: int, known: int) -> list[str]:
    return [each.fact_id for each in timeline.as_of(day(valid), day(known)).facts]


# ------------------------------------------------------------------------------------------ the naive reference


def reference(entries: Sequence[Entry], valid_at: datetime, known_at: datetime) -> set[str]:
    """Which facts are held, from scratch: replay the entries known by then, then test each fact at one instant."""
    facts: dict[str, Fact] = {}
    undone = set()
    for entry in entries:
        if entry.known_at <= known_at:
            if isinstance(entry, Recorded):
                facts[entry.fact.fact_id] = entry.fact
            elif isinstance(entry, Retracted):
                facts.pop(entry.fact_id, None)
            else:
                undone.add((entry.winner_id, entry.loser_id))

    def holds(each: Fact) -> bool:
        start, end = each.valid.start_at, each.valid.end_at
        return (start is None or start <= valid_at) and (end is None or valid_at < end)

    def beaten(loser: Fact) -> bool:
        return any(
            winner.is_override and winner.value != loser.value
            and winner.stated_at > loser.stated_at and winner.authority >= loser.authority
            and (winner.fact_id, loser.fact_id) not in undone
            for winner in facts.values() if holds(winner)
        )  # fmt: skip

    return {each.fact_id for each in facts.values() if holds(each) and not beaten(each)}


@st.composite
def facts(draw: st.DrawFn) -> Fact:
    start = draw(st.none() | st.integers(0, N_DAYS - 1))
    end = draw(st.none() | st.integers((start or 0) + 1, N_DAYS))
    return fact(
        draw(st.sampled_from("abcdef")), draw(st.sampled_from(["nine", "ten", "noon"])),
        draw(st.integers(0, 3)), start, end, authority=draw(st.integers(0, 2)), is_override=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[Entry]:
    """A few entries of every kind at times that never go back."""
    entries: list[Entry] = []
    known = 0
    for _ in range(draw(st.integers(1, 8))):
        known += draw(st.integers(0, 1))
        entry = st.one_of(
            facts().map(lambda each, at=known: Recorded(each, day(at))),
            st.sampled_from("abcdef").map(lambda each, at=known: Retracted(each, day(at))),
            st.permutations("abcdef").map(lambda each, at=known: Undone(each[0], each[1], day(at))),
        )
        entries.append(draw(entry))
    return entries


def replay(entries: Sequence[Entry]) -> Timeline:
    timeline = Timeline(SLOT)
    for entry in entries:
        if isinstance(entry, Recorded):
            timeline = timeline.record(entry.fact, entry.known_at)
        elif isinstance(entry, Retracted):
            timeline = timeline.retract(entry.fact_id, entry.known_at)
        else:
            timeline = timeline.undo(entry.winner_id, entry.loser_id, entry.known_at)
    return timeline


@given(entries=histories())
def test_equals_the_naive_reference_everywhere(entries: list[Entry]) -> None:
    """At every instant of both axes the timeline holds exactly what the reference holds."""
    timeline = replay(entries)
    for valid_at in DAYS:
        for known_at in [day(number) for number in range(-1, 10)]:
            held = {each.fact_id for each in timeline.as_of(valid_at, known_at).facts}
            assert held == reference(entries, valid_at, known_at)


@given(entries=histories())
def test_a_timeline_only_grows(entries: list[Entry]) -> None:
    """What was appended stays as it was: earlier rows and closings are a prefix of later ones."""
    for length in range(len(entries)):
        before, after = replay(entries[:length]), replay(entries[: length + 1])
        assert after.rows[: len(before.rows)] == before.rows
        assert after.closings[: len(before.closings)] == before.closings
        assert len({closing.row for closing in after.closings}) == len(after.closings)


@given(several=st.lists(facts(), max_size=5, unique_by=lambda each: each.fact_id), data=st.data())
def test_the_order_of_arrival_does_not_matter_in_the_end(several: list[Fact], data: st.DataObject) -> None:
    """Whichever source is read first, the belief is the same once all are read."""
    shuffled = data.draw(st.permutations(several))
    one = replay([Recorded(each, day(0)) for each in several])
    other = replay([Recorded(each, day(0)) for each in shuffled])
    for valid_at in DAYS:
        assert one.as_of(valid_at, day(0)) == other.as_of(valid_at, day(0))


@given(entries=histories(), hidden=st.sets(st.sampled_from("abcdef")))
def test_a_reader_sees_the_timeline_that_lacks_what_is_hidden(entries: list[Entry], hidden: set[str]) -> None:
    """A superseding fact that a reader may not see leaves no trace in what that reader gets."""
    seen = replay(entries).restrict(lambda each: each.fact_id not in hidden)
    visible = [
        entry for entry in entries
        if not hidden & ({entry.fact.fact_id} if isinstance(entry, Recorded)
                         else {entry.fact_id} if isinstance(entry, Retracted)
                         else {entry.winner_id, entry.loser_id})
    ]  # fmt: skip
    for valid_at in DAYS:
        for known_at in (day(0), day(2), day(9)):
            held = {each.fact_id for each in seen.as_of(valid_at, known_at).facts}
            assert held == reference(visible, valid_at, known_at)


# ---------------------------------------------------------------------------------------------------- by example


def test_an_override_splits_what_it_supersedes() -> None:
    """The overhangs of the older fact remain; before we knew, the older fact held throughout."""
    timeline = (
        Timeline(SLOT)
        .record(fact("old", "nine", stated=0), day(1))
        .record(fact("new", "ten", stated=2, start=3, end=5, is_override=True), day(2))
    )
    assert [ids(timeline, valid, known=2) for valid in (2, 3, 4, 5)] == [["old"], ["new"], ["new"], ["old"]]
    assert ids(timeline, valid=4, known=1) == ["old"]


def test_without_an_override_cue_two_values_are_a_conflict() -> None:
    """A later statement alone retires nothing: both stand and the belief says that they disagree."""
    timeline = Timeline(SLOT).record(fact("a", "nine"), day(1)).record(fact("b", "ten", stated=3), day(3))
    belief = timeline.as_of(day(3), day(3))
    assert belief.values == ("nine", "ten")
    assert belief.is_conflict


def test_the_same_value_twice_is_no_conflict() -> None:
    """A second source that agrees supports the first, even with an override cue."""
    timeline = (
        Timeline(SLOT)
        .record(fact("a", "nine"), day(1))
        .record(fact("b", "nine", stated=3, is_override=True), day(3))
    )
    belief = timeline.as_of(day(3), day(3))
    assert [each.fact_id for each in belief.facts] == ["a", "b"]
    assert not belief.is_conflict


def test_lower_authority_does_not_override() -> None:
    """A chat message does not retire the handbook, whatever it claims."""
    timeline = (
        Timeline(SLOT)
        .record(fact("handbook", "nine", authority=2), day(1))
        .record(fact("chat", "ten", stated=3, authority=1, is_override=True), day(3))
    )
    assert timeline.as_of(day(3), day(3)).is_conflict


def test_a_late_arriving_older_statement_does_not_come_back() -> None:
    """A page read after the thread that overruled it is superseded at once."""
    timeline = (
        Timeline(SLOT)
        .record(fact("thread", "ten", stated=3, is_override=True), day(4))
        .record(fact("page", "nine"), day(5))
    )
    assert ids(timeline, valid=5, known=5) == ["thread"]


def test_undoing_a_supersession_shows_both_again() -> None:
    """After an undo both facts stand; what we believed in between stays on record."""
    timeline = (
        Timeline(SLOT)
        .record(fact("old", "nine"), day(1))
        .record(fact("new", "ten", stated=2, is_override=True), day(2))
        .undo("new", "old", day(4))
    )
    assert [ids(timeline, valid=5, known=known) for known in (1, 2, 3, 4)] == [
        ["old"],
        ["new"],
        ["new"],
        ["new", "old"],
    ]


def test_retracting_the_override_restores_what_it_superseded() -> None:
    """When the overruling source is deleted, the older fact holds again."""
    timeline = (
        Timeline(SLOT)
        .record(fact("old", "nine"), day(1))
        .record(fact("new", "ten", stated=2, is_override=True), day(2))
        .retract("new", day(4))
    )
    assert [ids(timeline, valid=5, known=known) for known in (3, 4)] == [["new"], ["old"]]


def test_history_reads_along_both_axes() -> None:
    """One axis tells what held over time as known today, the other how we came to believe it."""
    timeline = (
        Timeline(SLOT)
        .record(fact("old", "nine"), day(1))
        .record(fact("new", "ten", stated=2, start=3, is_override=True), day(2))
    )
    along_valid = [(each.fact.value, each.valid) for each in timeline.over_valid_time(day(2))]
    assert along_valid == [("nine", Period(None, day(3))), ("ten", Period(day(3), None))]
    along_known = [(each.fact.value, each.known) for each in timeline.over_known_time(day(4))]
    assert along_known == [("nine", Period(day(1), day(2))), ("ten", Period(day(2), None))]


def test_recording_the_same_fact_again_changes_nothing() -> None:
    """A second reading of the same source is no news."""
    timeline = Timeline(SLOT).record(fact("a", "nine"), day(1))
    assert timeline.record(fact("a", "nine"), day(2)) is timeline


def test_time_does_not_go_back_and_slots_do_not_mix() -> None:
    """Knowledge is appended in order, and facts of another slot are refused."""
    timeline = Timeline(SLOT).record(fact("a", "nine"), day(2))
    with pytest.raises(ValueError, match="go back"):
        timeline.retract("a", day(1))
    with pytest.raises(ValueError, match="another slot"):
        Timeline(Slot("canteen", "closes")).record(fact("a", "nine"), day(1))
