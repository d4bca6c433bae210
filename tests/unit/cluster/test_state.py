"""The supervisor's record."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.state import EngineState, Phase, ProcessRecord, RunState, read_state


def record(**engines: Phase) -> RunState:
    states = {name: EngineState(phase, 1.5, url="u", pid=7, reason="r") for name, phase in engines.items()}
    return RunState(ProcessRecord.of(os.getpid()), states, {"CORTEX_POSTGRES_URL": "secret"})


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """Writing and reading the record loses nothing, and only its owner can read the secrets in it."""
    path = tmp_path / "state.json"
    state = record(postgres=Phase.READY, ray=Phase.FAILED)
    state.write(path)
    assert read_state(path) == state
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"supervisor": {"pid": 1}}', '{"supervisor": {}, "engines": {}}']
)
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    """Half a record is no record."""
    path = tmp_path / "state.json"
    path.write_text(text)
    assert read_state(path) is None


def test_a_process_is_recognised_by_pid_and_start_time() -> None:
    """A later process with the same pid is not taken for the recorded one, nor is an ended one."""
    here = ProcessRecord.of(os.getpid())
    assert here.find() is not None
    assert ProcessRecord(here.pid, here.started_at - 60).find() is None
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        ended = ProcessRecord.of(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert ended.find() is None  # a zombie


def test_ready_means_every_engine() -> None:
    """One engine that is not ready makes the whole not ready."""
    assert record(postgres=Phase.READY, ray=Phase.READY).is_ready
    assert not record(postgres=Phase.READY, ray=Phase.UNHEALTHY).is_ready
