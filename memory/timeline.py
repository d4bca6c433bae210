"""Timeline: what was true in one slot, and when we knew it. Bi-temporal, append-only, pure values.

Two axes, both half-open: `valid` is when a fact holds in the world, `known` when we held it to be so. Nothing is
rewritten: a timeline only grows. A row's known period is closed by appending its closing; where a fact is superseded in
part, the part that remains is appended as a new row.

A fact supersedes another of the same slot, where both hold, if it says so (an explicit cue such as "from now on"), was
stated later, and carries at least the same authority. Two that differ without that are a conflict and are shown as one.
The order in which facts reach us does not matter to what is believed in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from memory.periods import ALWAYS, Period, coalesce, subtract_all


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """What facts compete for: one attribute of one subject in one scope (`all`, a team, a region)."""

    subject: str
    attribute: str
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement from one source. `stated_at` is when the source said it; higher `authority` wins."""

    fact_id: str
    slot: Slot
    value: str
    source_id: str
    stated_at: datetime
    valid: Period = ALWAYS
    authority: int = 0
    is_override: bool = False

    def supersedes(self, other: Fact) -> bool:
        """Say whether this fact displaces another where both hold: decided pair by pair."""
        return (
            self.is_override
            and self.slot == other.slot
            and self.value != other.value
            and self.authority >= other.authority
            and self.stated_at > other.stated_at
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """We learned of a fact."""

    fact: Fact
    known_at: datetime


@dataclass(frozen=True, slots=True)
class Retracted:
    """A fact no longer counts (its source was deleted or corrected); what it had superseded counts again."""

    fact_id: str
    known_at: datetime


@dataclass(frozen=True, slots=True)
class Undone:
    """One supersession was judged wrong: from then on both facts stand."""

    winner_id: str
    loser_id: str
    known_at: datetime


Entry = Recorded | Retracted | Undone


@dataclass(frozen=True, slots=True)
class Row:
    """A fact held to be true over `valid`, from `known_from` on."""

    fact: Fact
    valid: Period
    known_from: datetime


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a row's known period; `row` is its place among the rows."""

    row: int
    known_to: datetime


@dataclass(frozen=True, slots=True)
class Version:
    """A row with both its periods, as history shows it."""

    fact: Fact
    valid: Period
    known: Period


@dataclass(frozen=True, slots=True)
class Belief:
    """What is held at one point of both axes: facts by id; several values are a conflict, none is not knowing."""

    facts: tuple[Fact, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The distinct values, in order."""
        return tuple(sorted({fact.value for fact in self.facts}))

    @property
    def is_conflict(self) -> bool:
        """Whether sources disagree."""
        return len(self.values) > 1


@dataclass(frozen=True, slots=True)
class Timeline:
    """The history of one slot. Every method that changes it returns a longer one; this one stays."""

    slot: Slot
    entries: tuple[Entry, ...] = ()
    rows: tuple[Row, ...] = ()
    closings: tuple[Closing, ...] = ()

    def record(self, fact: Fact, known_at: datetime) -> Timeline:
        """Learn of a fact; the same fact again changes nothing. Raises ValueError for another slot or an earlier time."""
        if fact.slot != self.slot:
            raise ValueError("the fact belongs to another slot")
        if fact in self._facts():
            return self
        return self._append(Recorded(fact, known_at))

    def retract(self, fact_id: str, known_at: datetime) -> Timeline:
        """Stop counting a fact; what it superseded counts again."""
        return self._append(Retracted(fact_id, known_at))

    def undo(self, winner_id: str, loser_id: str, known_at: datetime) -> Timeline:
        """Undo one supersession: from now on both facts stand, and show as a conflict."""
        return self._append(Undone(winner_id, loser_id, known_at))

    def as_of(self, valid_at: datetime, known_at: datetime) -> Belief:
        """Return what was held, at `known_at`, to be true at `valid_at`."""
        held = {
            version.fact.fact_id: version.fact
            for version in self.history()
            if version.known.contains(known_at) and version.valid.contains(valid_at)
        }
        return Belief(tuple(held[fact_id] for fact_id in sorted(held)))

    def history(self) -> tuple[Version, ...]:
        """List every row with both periods, in the order learned; what was closed the instant it came is left out."""
        ends = {closing.row: closing.known_to for closing in self.closings}
        return tuple(
            Version(row.fact, row.valid, Period(row.known_from, ends.get(place)))
            for place, row in enumerate(self.rows)
            if ends.get(place) != row.known_from
        )

    def over_valid_time(self, known_at: datetime) -> tuple[Version, ...]:
        """List what was held at one time of knowing, along the axis of what is true, earliest first."""
        held = [version for version in self.history() if version.known.contains(known_at)]
        return tuple(sorted(held, key=lambda each: (_start(each.valid), each.fact.fact_id)))

    def over_known_time(self, valid_at: datetime) -> tuple[Version, ...]:
        """List how the belief about one moment of the world changed, along the axis of knowing, earliest first."""
        held = [version for version in self.history() if version.valid.contains(valid_at)]
        return tuple(sorted(held, key=lambda each: (_start(each.known), each.fact.fact_id)))

    def restrict(self, may_see: Callable[[Fact], bool]) -> Timeline:
        """Return the timeline of a reader who may see only some facts, as if the others had never been recorded."""
        seen = Timeline(self.slot)
        visible = {entry.fact.fact_id for entry in self._recorded() if may_see(entry.fact)}
        for entry in self.entries:
            if _names(entry) <= visible:
                seen = seen._append(entry)
        return seen

    def _append(self, entry: Entry) -> Timeline:
        if self.entries and entry.known_at < self.entries[-1].known_at:
            raise ValueError("a timeline only grows: known_at must not go back")
        return replace(self, entries=(*self.entries, entry))._settle(entry.known_at)

    def _settle(self, known_at: datetime) -> Timeline:
        """Close open rows that no longer hold and append those that now do."""
        wanted = set(self._wanted())
        ended = {closing.row for closing in self.closings}
        open_rows = {
            (row.fact, row.valid): place for place, row in enumerate(self.rows) if place not in ended
        }
        closings = [Closing(place, known_at) for held, place in open_rows.items() if held not in wanted]
        rows = [Row(*held, known_at) for held in self._wanted() if held not in open_rows]
        return replace(self, rows=(*self.rows, *rows), closings=(*self.closings, *closings))

    def _wanted(self) -> Iterator[tuple[Fact, Period]]:
        """Yield each fact over the periods in which nothing supersedes it, by the entries so far."""
        undone = {(entry.winner_id, entry.loser_id) for entry in self.entries if isinstance(entry, Undone)}
        facts = self._facts()
        for fact in facts:
            above = [
                other.valid
                for other in facts
                if other.supersedes(fact) and (other.fact_id, fact.fact_id) not in undone
            ]
            for valid in subtract_all(fact.valid, coalesce(above)):
                yield fact, valid

    def _recorded(self) -> Iterator[Recorded]:
        return (entry for entry in self.entries if isinstance(entry, Recorded))

    def _facts(self) -> list[Fact]:
        """List the facts that count: recorded and not retracted since, the latest record of an id."""
        facts: dict[str, Fact] = {}
        for entry in self.entries:
            if isinstance(entry, Recorded):
                facts[entry.fact.fact_id] = entry.fact
            elif isinstance(entry, Retracted):
                facts.pop(entry.fact_id, None)
        return list(facts.values())


def _names(entry: Entry) -> set[str]:
    match entry:
        case Recorded(fact=fact):
            return {fact.fact_id}
        case Retracted(fact_id=fact_id):
            return {fact_id}
        case Undone(winner_id=winner_id, loser_id=loser_id):
            return {winner_id, loser_id}


def _start(period: Period) -> tuple[bool, float]:
    return (period.start_at is not None, period.start_at.timestamp() if period.start_at else 0.0)
