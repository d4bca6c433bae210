"""The log of a backfill on its way: into the record line by line, and out of it as it was said."""

import logging

import pytest

from cortex.errors import Unavailable
from data_jobs.backfill import _Lines
from data_jobs.backfill_commands import _news


def test_lines_that_could_not_be_recorded_are_recorded_with_the_next() -> None:
    """The catalog restarts: what was said meanwhile comes later, once, in order."""
    lines, heard = _Lines(), []
    say = logging.Logger("a backfill's")
    say.addHandler(lines)

    def refuse(_: str) -> None:
        raise Unavailable("the catalog restarts")

    say.warning("first")
    with pytest.raises(Unavailable):
        lines.hand_over(refuse)
    say.warning("second")
    lines.hand_over(heard.append)
    lines.hand_over(heard.append)
    assert heard == ["first\nsecond\n", ""]


def test_a_follower_is_told_when_lines_were_forgotten_before_it_read_them() -> None:
    """What is printed goes on where it ended, also when its beginning is gone; a gap is one line that says so."""
    old = "".join(f"line {number}\n" for number in range(200))
    assert _news(old, old + "new\n") == "new\n"
    assert _news(old, old[1_000:] + "new\n") == "new\n"
    assert _news(old, "half a line\nlater\n") == '{"event": "log.cut"}\nlater\n'
