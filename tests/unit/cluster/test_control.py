"""`cortex down` ends a supervisor at whatever moment of its life."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cluster.control import Down, down
from cluster.daemon import take_lock
from cluster.state import EngineState, Phase, ProcessRecord, RunState
from cortex.settings import Settings


@pytest.fixture
def given(tmp_path: Path) -> Settings:
    (tmp_path / "run").mkdir()
    return Settings(home=tmp_path)


def test_a_supervisor_that_has_yet_to_write_its_record_is_ended(given: Settings) -> None:
    """It holds the home's lock: `down` waits for the record that names it, instead of finding nothing to end."""
    lock = take_lock(given.home / "run")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as supervisor:
        record = RunState(ProcessRecord.of(supervisor.pid), {"postgres": EngineState(Phase.WAITING, 1.0)})
        writing = threading.Timer(0.5, lambda: record.write(given.state_path))
        writing.start()
        done = down(given, lambda state: None)
        writing.join()
        lock.close()
    assert done == Down(was_running=True, ended=("postgres",))
    assert supervisor.returncode == -signal.SIGTERM


def test_a_supervisor_that_is_ending_is_waited_for(given: Settings) -> None:
    """It has removed its record and still holds the lock; when that is free there is nothing left to end."""
    lock = take_lock(given.home / "run")
    freeing = threading.Timer(0.5, lock.close)
    freeing.start()
    assert down(given, lambda state: None) == Down(was_running=False)
    assert lock.closed


def test_nothing_is_made_of_a_home_that_does_not_exist(tmp_path: Path) -> None:
    """Ending nothing is fine, and leaves nothing."""
    assert down(Settings(home=tmp_path / "none"), lambda state: None) == Down(was_running=False)
    assert not (tmp_path / "none").exists()
