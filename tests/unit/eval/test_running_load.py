"""A watched load: its steps, its pace, and the moments chosen in it."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cortex.errors import Unavailable
from eval.kills import Kill, until_hit
from eval.running_load import Moment, Pace, RunningLoad, Settled

# Two steps, whose files go again, and three documents settled; each time it waits to be seen.
_LOAD = """
import json, pathlib, sys, time
work = pathlib.Path(sys.argv[1]) / "work" / "source" / "recipe"
work.mkdir(parents=True)
def tell(n):
    print(json.dumps({"event": "ingest.progress", "total": 3, "indexed": n, "unchanged": 0, "failed": 0}), flush=True)
tell(0)
time.sleep(0.2)
for name, wait_s in (("part.docs", 0.2), ("part.0.vectors", 0.6)):
    (work / name).touch()
    time.sleep(wait_s)
for name in ("part.docs", "part.0.vectors"):
    (work / name).unlink()
tell(2)
time.sleep(0.2)
tell(3)
time.sleep(60)
"""


@pytest.fixture
def load(tmp_path: Path) -> Iterator[RunningLoad]:
    (tmp_path / "load.py").write_text(_LOAD)
    command = [sys.executable, str(tmp_path / "load.py"), str(tmp_path)]
    with RunningLoad(command, tmp_path, tmp_path / "log") as started:
        yield started


def test_an_undisturbed_load_tells_its_pace(load: RunningLoad) -> None:
    """Steps count though their files go, and it is at work until its last document is settled, not until it ends."""
    pace = load.watch()
    assert pace.n_steps == 2
    assert list(pace.at_s) == sorted(pace.at_s)
    assert load.settled() == Settled(3, is_all=True)
    assert load.process.poll() is None
    assert not load.is_working()


def test_a_moment_is_reached_while_the_load_works(load: RunningLoad) -> None:
    """After the second step, and not before."""
    load.reach(Moment(2, 0.5), Pace((0.2, 0.4, 0.5)))
    assert (load.n_steps(), load.is_working()) == (2, True)
    assert load.settled().n_indexed < 3


def test_a_moment_that_never_comes_is_not_waited_for(load: RunningLoad) -> None:
    """A load that has settled all before the moment's step is late, and told as such."""
    load.reach(Moment(3, 0.0), Pace((0.1, 0.2, 0.3, 0.4)))
    assert not load.is_working()


def test_a_load_does_not_outlive_its_watcher(tmp_path: Path) -> None:
    """Whatever ends the watcher ends the load."""
    with (
        pytest.raises(KeyboardInterrupt),
        RunningLoad(
            [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, tmp_path / "log"
        ) as load,
    ):
        raise KeyboardInterrupt
    assert not psutil.pid_exists(load.process.pid)


def test_moments_fall_after_every_step_some_in_the_start_and_more_in_the_writing() -> None:
    """The same seed draws the same; the wait is that share of the time between two steps."""
    pace = Pace((10.0, 12.0, 15.0))
    moments = [pace.draw(random.Random(f"7 {n}")) for n in range(300)]
    assert moments == [pace.draw(random.Random(f"7 {n}")) for n in range(300)]
    assert {moment.step for moment in moments} == {0, 1, 2}
    assert 40 < sum(moment.step == 0 for moment in moments) < 80
    assert sum(moment.step == 2 for moment in moments) > 120
    assert pace.wait_s(Moment(0, 0.5)) == 5.0
    assert pace.wait_s(Moment(1, 0.5)) == 1.0
    assert pace.wait_s(Moment(2, 1.0)) == 3.0
    started = [pace.draw(random.Random(n), skips_start=True).step for n in range(50)]
    assert 0 not in started


def _kill(*, is_hit: bool) -> Kill:
    return Kill("job", 1, 2, 1.0, 0, is_hit, -9, 2.0, "")


def test_a_kill_that_came_late_is_tried_again() -> None:
    """Until one hits a load at work; what came before is kept, marked as late."""
    tried = iter([_kill(is_hit=False), _kill(is_hit=True), _kill(is_hit=True)])
    assert [kill.is_hit for kill in until_hit(lambda: next(tried))] == [False, True]
    assert next(tried).is_hit


def test_kills_that_all_come_late_are_an_error() -> None:
    """A command that cannot hit says so, rather than counting what proves nothing."""
    with pytest.raises(Unavailable, match="5 kills of job in a row"):
        list(until_hit(lambda: _kill(is_hit=False)))
