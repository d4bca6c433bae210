"""When an engine that ended is started again: at once, then with growing pauses; a crash loop is called one."""

from __future__ import annotations

from dataclasses import dataclass

# An engine that was ready for this long did start well: its next end is the first of a new row.
STABLE_S = 10.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
# This many ends in a row without a stable spell are a crash loop. It is still tried, at the longest pause's pace.
LOOP_ENDS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """How often in a row an engine ended without having been ready for long."""

    ends: int = 0

    @property
    def is_loop(self) -> bool:
        """Whether this is a crash loop: the state becomes `failed`, with the cause."""
        return self.ends >= LOOP_ENDS

    @property
    def pause_s(self) -> float:
        """The pause before the next start: 0.2 s, then 1, 2, 4 … 30 s."""
        return FIRST_PAUSE_S if self.ends <= 1 else min(2.0 ** (self.ends - 2), LONGEST_PAUSE_S)

    def after_end(self, ready_s: float) -> Row:
        """Count one more end, of an engine that had been ready for `ready_s` seconds."""
        return Row(1 if ready_s >= STABLE_S else self.ends + 1)


# For causes that no restart removes (a missing file, a wrong setting): failed at the first end.
HOPELESS = Row(LOOP_ENDS + 3)
