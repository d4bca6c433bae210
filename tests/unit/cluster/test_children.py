"""Child processes and their logs."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from cluster import children
from cluster.engine import Launch

WITH_A_CHILD = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)']); print('on', flush=True); time.sleep(99)"


async def started(code: str, log: Path) -> asyncio.subprocess.Process:
    process = await children.spawn(Launch((sys.executable, "-c", code)), os.environ, log, signal.SIGTERM)
    for _ in range(200):
        if children.tail(log):
            break
        await asyncio.sleep(0.05)
    return process


async def test_ending_a_child_ends_everything_below_it(tmp_path: Path) -> None:
    """A child that leaves its own child behind takes it along."""
    process = await started(WITH_A_CHILD, tmp_path / "x.log")
    below = children.descendants(process.pid)
    assert len(below) == 1
    assert await children.end(process, signal.SIGTERM, 10)
    assert psutil.wait_procs(below, timeout=5)[1] == []


async def test_a_child_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    """A child that does not end in time is killed, and that is said."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(99)"
    process = await started(code, tmp_path / "x.log")
    assert not await children.end(process, signal.SIGTERM, 0.3)
    assert process.returncode == -signal.SIGKILL


def test_a_log_past_its_limit_starts_anew_and_keeps_its_past(tmp_path: Path) -> None:
    """Rotation keeps one predecessor, empties the file in place, and a writer that appends goes on."""
    log = tmp_path / "x.log"
    with log.open("a") as writer:
        writer.write("old\n" * 10)
        writer.flush()
        children.rotate(log, limit_bytes=39)
        writer.write("new\n")
    assert (log.read_text(), (tmp_path / "x.log.1").read_text()) == ("new\n", "old\n" * 10)


def test_a_log_within_its_limit_stays(tmp_path: Path) -> None:
    """A small log is left alone."""
    log = tmp_path / "x.log"
    log.write_text("line\n")
    children.rotate(log, limit_bytes=5)
    assert (log.read_text(), (tmp_path / "x.log.1").exists()) == ("line\n", False)


def test_the_last_words_of_a_program_are_the_error_that_it_states(tmp_path: Path) -> None:
    """An error document is told as a sentence with its code and what helps, whatever the runtime says after it."""
    log = tmp_path / "x.log"
    error = {
        "code": "cluster.no_gpus",
        "message": "embedding asks for 1 GPU",
        "remedy": "fix",
        "hint": "add nodes",
    }
    stated = json.dumps({"error": error}, indent=2)
    log.write_text(f'{{"event": "serve.stop"}}\n{stated}\n*** runtime says goodbye\n')
    assert children.last_words(log, 2) == "embedding asks for 1 GPU (cluster.no_gpus); add nodes"


@pytest.mark.parametrize("said", ["{", '{\n"error": "a word"\n}', '{\n"error": {}\n}', "[1, 2]"])
def test_the_last_words_are_else_the_last_lines(tmp_path: Path, said: str) -> None:
    """What only looks like an error document is told as it stands."""
    log = tmp_path / "x.log"
    log.write_text(f"before\n{said}\n")
    assert children.last_words(log, 2) == " ".join(["before", *said.split("\n")][-2:])
    assert children.last_words(tmp_path / "missing.log", 2) == ""


def test_tail_reads_the_last_lines_of_a_huge_log(tmp_path: Path) -> None:
    """The tail reads a window from the end, whatever the file's size, and skips blank lines."""
    log = tmp_path / "x.log"
    log.write_text("x\n" * 100_000 + "one\n\ntwo\n\n")
    assert children.tail(log, 2) == ["one", "two"]
    assert children.tail(tmp_path / "missing.log") == []
