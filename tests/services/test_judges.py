"""The judges pass on real engines: random permission worlds, and the gates on the frozen corpus."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.services


def judge(*arguments: str) -> dict[str, Any]:
    """Run `cortex eval …` as a person would and return its document, whatever it found."""
    command = [sys.executable, "-m", "clients.cli.main", "eval", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=850)
    assert done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(900)
def test_random_worlds_show_exactly_what_is_allowed() -> None:
    """Nothing leaks, nothing visible is missing, nothing depends on the unseen, and a removal holds at once."""
    found = judge("permissions", "--worlds", "12", "--seed", "5000")
    assert found["searches"] > 12 * 3 * 3
    wrong = {name: found[name] for name in ("leaks", "missing", "differences", "late")}
    assert wrong == {"leaks": 0, "missing": 0, "differences": 0, "late": 0}, found["examples"]


@pytest.mark.timeout(900)
def test_the_gates_hold() -> None:
    """Every figure on the frozen corpus reaches its bound."""
    found = judge("gates")
    assert [gate for gate in found["gates"] if not gate["is_passed"]] == []
    assert found["is_passed"]


_JUDGE = """
import time
from eval.scratch import scratch_home
with scratch_home(("postgres",)):
    time.sleep(60)
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("signals", "appears"),
    [
        ((signal.SIGTERM,), "logs/supervisor.log"),  # the supervisor has not even taken its lock
        ((signal.SIGINT, signal.SIGINT), "run/lock"),
        ((signal.SIGTERM, signal.SIGINT), "run/state.json"),
    ],
)
def test_a_judge_that_is_told_to_stop_leaves_no_engine(
    tmp_path: Path, signals: tuple[signal.Signals, ...], appears: str
) -> None:
    """While its engines start, told once or twice: they end, and the home is gone."""
    with subprocess.Popen(
        [sys.executable, "-c", _JUDGE], env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as judge:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(f"cortex-eval-*/{appears}")):
            assert judge.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
        for number in signals:
            judge.send_signal(number)
            time.sleep(0.3)
        code = judge.wait(timeout=120)
    assert code != 0
    assert [process for process in psutil.process_iter() if _is_of(process, tmp_path)] == []
    assert list(tmp_path.iterdir()) == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    """Whether a process works for a home in a folder."""
    try:
        return process.environ().get("CORTEX_HOME", "").startswith(str(folder))
    except psutil.Error:
        return False
