"""A whole Cortex over HTTP: pushed to by a source, and with every process killed in turn while two people keep asking.

What they may get meanwhile: the whole right answer, an answer that says what it lacks, or an error. What they may not
get: an empty success, or a passage that is not theirs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from cluster.children import kill_all
from tests.services.homes import ScratchHome, command_line
from tests.services.ray_home import wait_until
from tests.twins.slack_workspace import TOKEN, Workspace
from tests.unit.connectors.test_slack_events import SECRET, signed

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

QUESTION = "When does the Larkspur vault open and who holds the second key?"
PRIVATE = "The Larkspur vault opens at nine on Mondays; Ines holds the second key."
PUBLIC = "The canteen opens at noon. Soup is served on Mondays, and the vault of the cellar is dry."
ACCESS = "groups: {keyholders: {users: [ann]}}\nviewers: {everyone: true}\n"
ACCESS_OF_PRIVATE = "viewers: {groups: [keyholders]}\n"


@dataclass(slots=True)
class Person:
    """Someone who asks again and again; counts what came back and keeps what must never come."""

    token: str
    is_keyholder: bool
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def ask(self, url: str) -> str:
        """Ask once; returns `whole`, `degraded` or what the error was."""
        try:
            reply = httpx.post(
                f"{url}/v1/search",
                json={"query": QUESTION},
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=20,
            )
        except httpx.HTTPError as error:
            return type(error).__name__
        if PRIVATE in reply.text and not self.is_keyholder:
            self.wrong.append(f"a leak: {reply.text}")
        if reply.status_code != httpx.codes.OK:
            return str(reply.status_code)
        found = reply.json()
        texts = [hit["text"] for hit in found["hits"]]
        is_whole = any(PUBLIC in text for text in texts) and (
            not self.is_keyholder or any(PRIVATE in text for text in texts)
        )
        if is_whole:
            return "whole"
        if not found["degraded"]:
            self.wrong.append(f"less than all, and called whole: {reply.text}")
        return "degraded"

    def keep_asking(self, url: str, stop: threading.Event) -> None:
        """Ask until told to stop."""
        while not stop.wait(0.05):
            self.outcomes[self.ask(url)] += 1


@dataclass(slots=True)
class Company:
    """A whole Cortex with one private and one public page, and the two who ask."""

    home: ScratchHome
    ann: Person
    bob: Person

    @property
    def url(self) -> str:
        return self.home.state.engines["serve"].url


@pytest.fixture(scope="module")
def company() -> Iterator[Company]:
    folder = Path(tempfile.mkdtemp(prefix="cortex-test-"))
    slack = {"CORTEX_SLACK_TOKEN": TOKEN, "CORTEX_SLACK_SIGNING_SECRET": SECRET}
    scratch = ScratchHome(folder / "home", slack)
    pages = folder / "pages"
    (pages / "private").mkdir(parents=True)
    (pages / ".cortex-access.yaml").write_text(ACCESS)
    (pages / "private" / ".cortex-access.yaml").write_text(ACCESS_OF_PRIVATE)
    (pages / "private" / "vault.md").write_text(f"# Vault\n\n{PRIVATE}\n")
    (pages / "canteen.md").write_text(f"# Canteen\n\n{PUBLIC}\n")
    try:
        scratch.up()
        loaded = scratch.cortex("ingest", "files", str(pages), "--access", "file-only")
        assert (loaded.code, loaded.document["indexed"], loaded.document["failed"]) == (0, 2, []), loaded
        assert scratch.cortex("access", "add-user", "ann", "bob").code == 0
        ann, bob = (scratch.cortex("token", name).document["token"] for name in ("ann", "bob"))
        made = Company(scratch, Person(ann, True), Person(bob, False))
        wait_until_whole(made)
        yield made
    finally:
        if (scratch.path / "run" / "state.json").exists():
            scratch.down()
        shutil.rmtree(folder, ignore_errors=True)


def wait_until_whole(company: Company, timeout_s: float = 150) -> None:
    """Wait until both get everything that is theirs again."""
    deadline = time.monotonic() + timeout_s
    while True:
        got = [person.ask(company.url) for person in (company.ann, company.bob)]
        if got == ["whole", "whole"]:
            return
        assert time.monotonic() < deadline, f"{got}\n{company.home.state.engines}\n{company.home.logs()}"
        time.sleep(0.3)


def wait_until_ready(company: Company, restarts: dict[str, int], timeout_s: float = 150) -> None:
    """Wait until the supervisor has started the named engines again and all are ready."""
    deadline = time.monotonic() + timeout_s
    while True:
        state = company.home.state
        if state.is_ready and all(state.engines[name].restarts > n for name, n in restarts.items()):
            return
        assert time.monotonic() < deadline, f"{state.engines}\n{company.home.logs()}"
        time.sleep(0.2)


def ray_processes(company: Company, needle: str) -> list[psutil.Process]:
    """Find processes of this home's Ray by their command line."""
    return [each for each in company.home.everything() if needle in command_line(each)]


class Asking:
    """Both people ask while a block runs; at its end nothing they got may have been wrong."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self.stop = threading.Event()
        people = (company.ann, company.bob)
        self.threads = [
            threading.Thread(target=each.keep_asking, args=(company.url, self.stop)) for each in people
        ]

    def __enter__(self) -> None:
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert self.company.ann.wrong == []
        assert self.company.bob.wrong == []
        assert self.company.ann.outcomes["whole"] > 0


LATE_REPLY = {
    "type": "message", "channel": "G0SEC", "user": "U0ANA", "text": "They now offer sixty million in cash.",
    "ts": "1772900000.000000", "thread_ts": "1772700000.000900",
}  # fmt: skip


def test_a_signed_push_is_read_and_found(company: Company, glacier: Workspace) -> None:
    """A late reply is found by a member once Slack's push names it, and by nobody else; unsigned or forged, the push does
    nothing.
    """
    loaded = company.home.cortex("ingest", "slack", glacier.url, "--no-ray").document
    assert (loaded["indexed"], loaded["failed"]) == (2, [])
    glacier.messages["G0SEC"].append(LATE_REPLY)
    glacier.calls.clear()
    address = f"{company.url}/v1/sources/{loaded['source_id']}/events"

    def push(event_id: str, headers: Callable[[bytes], dict[str, str]]) -> int:
        body = json.dumps({"type": "event_callback", "event_id": event_id, "event": LATE_REPLY}).encode()
        return httpx.post(address, content=body, headers=headers(body), timeout=20).status_code

    refused = [push("Ev1", lambda body: {}), push("Ev2", lambda body: signed(body, secret="guessed"))]
    assert (refused, recorded(company), glacier.calls) == ([401, 401], [], [])
    assert push("Ev3", signed) == 200
    yuki = company.home.cortex("token", "yuki@acme.example").document["token"]
    wait_until(lambda: LATE_REPLY["text"] in found(company, yuki), timeout_s=90)
    assert LATE_REPLY["text"] not in found(company, company.ann.token)
    wait_until(lambda: recorded(company) == [("Ev3", True)])


def recorded(company: Company) -> list[tuple[str, bool]]:
    """The pushes that were believed, and whether they are settled."""
    with psycopg.connect(company.home.settings().postgres_url) as catalog:
        return catalog.execute("SELECT push_id, settled_at IS NOT NULL FROM pushes").fetchall()


def found(company: Company, token: str) -> str:
    """Everything that a person gets for a question about the offer."""
    headers = {"Authorization": f"Bearer {token}"}
    question = {"query": "What do they offer in cash now?"}
    reply = httpx.post(f"{company.url}/v1/search", json=question, headers=headers, timeout=20)
    return " ".join(hit["text"] for hit in reply.raise_for_status().json()["hits"])


@pytest.mark.parametrize("name", ["postgres", "qdrant", "spicedb", "relay", "serve", "ray"])
def test_an_engine_killed_under_queries_costs_nothing_but_time(company: Company, name: str) -> None:
    """With one engine killed, answers are whole, marked as degraded or refused, never wrong, and soon whole again."""
    restarts = {name: company.home.state.engines[name].restarts}
    with Asking(company):
        company.home.kill_engines(name)
        wait_until_ready(company, restarts)
        wait_until_whole(company)


def test_a_replica_killed_under_queries_is_replaced(company: Company) -> None:
    """The process that answers is started again by Serve itself, without the supervisor."""
    before = company.home.state.engines["serve"].restarts
    replicas = ray_processes(company, "ServeReplica")
    assert len(replicas) == 1
    with Asking(company):
        kill_all(replicas)
        assert psutil.wait_procs(replicas, timeout=20)[1] == []
        wait_until_whole(company)
    assert company.home.state.engines["serve"].restarts == before


def test_all_engines_killed_under_queries_come_back_whole(company: Company) -> None:
    """With every engine killed in the same moment the supervisor brings the whole back."""
    restarts = {name: each.restarts for name, each in company.home.state.engines.items() if each.pid}
    with Asking(company):
        company.home.kill_engines(*restarts)
        wait_until_ready(company, restarts)
        wait_until_whole(company)


def test_up_continues_after_everything_was_killed_under_queries(company: Company) -> None:
    """After SIGKILL of the supervisor and everything below it, `up` continues at the same address with the same answers."""
    url = company.url
    running = company.home.everything()
    with Asking(company):
        kill_all(running)
        assert psutil.wait_procs(running, timeout=20)[1] == []
        company.home.up()
        assert company.url == url
        wait_until_whole(company)
