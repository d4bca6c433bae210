"""Engines under supervision: started, refused twice, killed, continued, ended."""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from cluster.children import kill_all
from cluster.state import EngineState, Phase
from tests.services.homes import ScratchHome

pytestmark = pytest.mark.services
NewHome = Callable[..., ScratchHome]


def insert(home: ScratchHome, value: int) -> None:
    with psycopg.connect(home.settings().postgres_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value integer)")
        connection.execute("INSERT INTO kept VALUES (%s)", (value,))


def rows(home: ScratchHome) -> list[int]:
    with psycopg.connect(home.settings().postgres_url) as connection:
        return [row[0] for row in connection.execute("SELECT value FROM kept ORDER BY value")]


def wait_until(holds: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.1)


def engine(home: ScratchHome, name: str) -> EngineState:
    return home.state.engines[name]


def test_up_and_down_leave_only_data(new_home: NewHome) -> None:
    """`up` makes a private home and a ready record, `down` ends every process and keeps the data for the next `up`."""
    home = new_home()
    document = home.up("postgres").document
    modes = {
        path: stat.S_IMODE((home.path / path).stat().st_mode) for path in (".", "run/state.json", "keys")
    }
    assert modes == {".": 0o700, "run/state.json": 0o600, "keys": 0o700}
    assert (document["ready"], document["engines"]["postgres"]["state"]) == (True, "ready")
    assert "secret" not in str(document) and home.settings().postgres_url not in str(document)
    insert(home, 1)
    url, running = home.settings().postgres_url, home.everything()
    home.down()
    assert psutil.wait_procs(running, timeout=5)[1] == []
    assert home.cortex("status").code == 7
    home.up("postgres")
    assert (rows(home), home.settings().postgres_url) == ([1], url)


def test_a_second_up_is_refused_with_a_reason(new_home: NewHome) -> None:
    """Another `up` in a running home exits with 5, says who runs there, and disturbs nothing."""
    home = new_home()
    home.up("postgres")
    before = home.state
    ran = home.cortex("up", "--only", "postgres")
    assert (ran.code, ran.document["error"]["code"]) == (5, "home.in_use")
    assert f"pid {before.supervisor.pid}" in ran.document["error"]["message"]
    assert home.state == before


def test_a_killed_engine_comes_back_with_its_data(new_home: NewHome) -> None:
    """Postgres killed with SIGKILL is started again at the same address; what was committed is there."""
    home = new_home()
    home.up("postgres")
    insert(home, 1)
    url = home.settings().postgres_url
    home.kill_engines("postgres")
    wait_until(lambda: engine(home, "postgres").restarts == 1 and home.state.is_ready)
    assert (rows(home), home.settings().postgres_url) == ([1], url)


@pytest.mark.parametrize("with_engines", [False, True], ids=["the supervisor", "everything"])
def test_up_continues_after_a_kill(new_home: NewHome, with_engines: bool) -> None:
    """After SIGKILL of the supervisor, or of it and all engines at once, no process stays and `up` continues with all data."""
    home = new_home()
    home.up("postgres")
    insert(home, 1)
    running = home.everything()
    kill_all(running if with_engines else running[:1])
    assert psutil.wait_procs(running, timeout=20)[1] == []
    ran = home.cortex("status")
    assert (ran.code, "cortex up" in ran.document["error"]["message"]) == (7, True)
    home.up("postgres")
    assert rows(home) == [1]


def test_an_engine_that_hangs_is_shown_as_unhealthy(new_home: NewHome) -> None:
    """An engine that runs but does not answer is unhealthy with the reason, and ready again when it answers."""
    home = new_home()
    home.up("postgres")
    pid = engine(home, "postgres").pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: engine(home, "postgres").state is Phase.UNHEALTHY)
        assert "did not answer" in engine(home, "postgres").reason
        assert home.cortex("status").code == 7
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: engine(home, "postgres").state is Phase.READY)
    assert (engine(home, "postgres").restarts, engine(home, "postgres").pid) == (0, pid)


def test_a_taken_port_is_no_obstacle(new_home: NewHome) -> None:
    """When another program took the kept port, Postgres gets a new one and the record says so."""
    home = new_home()
    home.up("postgres")
    insert(home, 1)
    port = int(home.state.engines["postgres"].url.rpartition(":")[2].partition("/")[0])
    home.down()
    with socket.create_server(("127.0.0.1", port)):
        home.up("postgres")
        assert f":{port}/" not in engine(home, "postgres").url
        assert rows(home) == [1]


def test_a_given_url_replaces_the_engine(new_home: NewHome) -> None:
    """With CORTEX_POSTGRES_URL set nothing is started, but that server's health is watched."""
    server = new_home()
    server.up("postgres")
    url = server.settings().postgres_url
    home = new_home(CORTEX_POSTGRES_URL=url)
    home.up("postgres")
    state = engine(home, "postgres")
    assert (state.is_embedded, state.pid, (home.path / "postgres").exists()) == (False, None, False)
    assert home.settings().postgres_url == url
    server.down()
    wait_until(lambda: engine(home, "postgres").state is Phase.UNHEALTHY)


def test_an_unreachable_given_url_fails_with_its_address(new_home: NewHome) -> None:
    """A server that does not answer is waited for, then named; `up` ends within its timeout."""
    home = new_home(CORTEX_POSTGRES_URL="postgresql://u:hidden@127.0.0.1:9/db")
    ran = home.cortex("up", "--only", "postgres", "--timeout", "3")
    assert (ran.code, ran.document["error"]["code"]) == (7, "up.timed_out")
    assert "127.0.0.1:9" in ran.document["error"]["message"]
    assert "hidden" not in ran.stderr + str(ran.document)


@pytest.mark.parametrize("where", ["/proc/cortex", "/dev/null/cortex"])
def test_a_home_that_cannot_be_written_is_refused(where: str) -> None:
    """A home on a read-only or impossible place exits with 8 and names the setting to change."""
    ran = ScratchHome(Path(where)).cortex("up", "--only", "postgres")
    assert (ran.code, ran.document["error"]["code"]) == (8, "home.unusable")
    assert "CORTEX_HOME" in ran.document["error"]["hint"]


def test_an_unknown_engine_is_an_input_error(new_home: NewHome) -> None:
    """`--only` with a misspelt engine exits with 2 and lists the engines."""
    ran = new_home().cortex("up", "--only", "postgers")
    assert (ran.code, "postgres" in ran.document["error"]["hint"]) == (2, True)
