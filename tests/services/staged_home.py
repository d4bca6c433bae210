"""A whole Cortex in the staged placement with the sample company in it, a model that streams, and ways to ask it."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from clients.cli.calls import Caller
from cortex.errors import CortexError
from cortex.evidence import Question
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.ingest import ingest
from data_jobs.sources import Naming, files_source, slack_source
from retrieval.path import Parts, search
from serve_apps import shapes
from serve_apps.parts import open_parts
from serve_apps.placements import SHIPPED
from tests.services.asking import token
from tests.services.homes import ScratchHome, command_line
from tests.services.ray_home import wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT: dict[str, Any] = yaml.safe_load((EXAMPLES / "questions.yaml").read_text(encoding="utf-8"))
ASKED = [question["text"] for question in SCRIPT["questions"]]
PEOPLE = tuple(SCRIPT["people"])
# Neither depends on which way a question took.
_NOT_COMPARED = ("timings_ms", "trace_id")


@dataclass(frozen=True, slots=True)
class StagedHome:
    """A running home and the model that it streams from."""

    scratch: ScratchHome
    settings: Settings
    model: StreamingModel

    @property
    def url(self) -> str:
        return self.scratch.state.engines["serve"].url

    def headers(self, person: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token(self.settings, person)}"}

    def staged(self, person: str, text: str) -> Any:
        """Ask over HTTP, through the stages."""
        reply = httpx.post(
            f"{self.url}/v1/search", json={"query": text}, headers=self.headers(person), timeout=60
        )
        return _compared(reply.raise_for_status().json())

    def fused(self, asked: list[tuple[str, str]]) -> list[Any]:
        """Ask the same engines in this process."""

        async def ask(parts: Parts, person: str, text: str) -> Any:
            result = await search(parts, Principal(self.settings.tenant_id, person), Question(text))
            return _compared(json.loads(shapes.search_response(result).model_dump_json()))

        async def ask_all() -> list[Any]:
            async with open_parts(self.settings) as parts:
                return [await ask(parts, person, text) for person, text in asked]

        return asyncio.run(ask_all())

    def replicas(self, stage: str) -> list[psutil.Process]:
        """The processes that a stage's replicas are."""
        needle = f"ServeReplica:cortex:{stage}"
        return [each for each in self.scratch.everything() if needle in command_line(each)]


def _compared(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in _NOT_COMPARED}


def own_config(folder: Path, **changes: dict[str, Any]) -> Path:
    """Write a Serve config for one machine: one replica each, nothing reserved, and what `changes` say of stages."""
    document = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    for name, block in document["staged"].items():
        options = block["deployment"]
        options["ray_actor_options"] = {"num_cpus": 0}
        options["autoscaling_config"] |= {"min_replicas": 1, "max_replicas": 1}
        options["graceful_shutdown_timeout_s"] = 10
        for word, value in changes.get(name, {}).items():
            options[word] = {**options[word], **value} if isinstance(value, dict) else value
    path = folder / "placements.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@contextmanager
def staged_home(**stages: dict[str, Any]) -> Iterator[StagedHome]:
    """Start a home in the staged placement with the sample company, and end and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="cortex-test-"))
    with StreamingModel.running() as model:
        env = {"CORTEX_PLACEMENT": "staged", "CORTEX_LLM_URL": model.url, "CORTEX_LLM_MODEL": "tiny"}
        if stages:
            env["CORTEX_SERVE_CONFIG"] = str(own_config(folder, **stages))
        scratch = ScratchHome(folder / "home", env)
        try:
            scratch.up()
            made = StagedHome(scratch, scratch.settings(), model)
            _load(made.settings)
            wait_until(lambda: httpx.get(f"{made.url}/readyz", timeout=30).is_success)
            yield made
        finally:
            if (scratch.path / "run" / "state.json").exists():
                scratch.down()
            shutil.rmtree(folder, ignore_errors=True)


def _load(settings: Settings) -> None:
    files = files_source(settings, EXAMPLES / "sample_company", name="sample_company", access="file-only")
    chat = slack_source(settings, str(EXAMPLES / "sample_chat"), Naming("sample_chat", "default"), "tarnvik")
    for source in (files, chat):
        assert ingest(settings, source).failed == ()


@dataclass(slots=True)
class StreamingModel:
    """A server that speaks the OpenAI chat API and says one word at a time; counts who left before the end."""

    url: str = ""
    pause_s: float = 0.05
    n_words: int = 40
    n_asked: int = 0
    n_left: int = 0

    def write(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        self.n_asked += 1
        handler.rfile.read(int(handler.headers["content-length"]))
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        try:
            for number in range(self.n_words):
                words = "See [1] " if number == 0 else f"word{number} "
                delta = {"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}]}
                handler.wfile.write(b"data: " + json.dumps(delta).encode() + b"\n\n")
                handler.wfile.flush()
                time.sleep(self.pause_s)
            handler.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.n_left += 1

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[StreamingModel]:
        """Serve on a free port until the block ends."""
        model = cls()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                model.write(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield model
            server.shutdown()
            thread.join()


@dataclass(slots=True)
class Askers:
    """People who ask again and again while a block runs, and what they got: statuses, and what was degraded.

    They ask once and take what comes, or, if patient, as the command line does.
    """

    home: StagedHome
    n_people: int = 4
    is_patient: bool = False
    outcomes: Counter[str] = field(default_factory=Counter)
    degraded: Counter[str] = field(default_factory=Counter)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Askers:
        self._threads = [threading.Thread(target=self._keep_asking, args=(n,)) for n in range(self.n_people)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _keep_asking(self, number: int) -> None:
        person = PEOPLE[number % len(PEOPLE)]
        with (
            httpx.Client(base_url=self.home.url, headers=self.home.headers(person), timeout=60) as client,
            Caller(self.home.settings, person) as caller,
        ):
            n_asked = number
            while not self._stop.is_set():
                text = ASKED[n_asked % len(ASKED)]
                outcome = self._ask_patiently(caller, text) if self.is_patient else self._ask(client, text)
                self.outcomes[outcome] += 1
                n_asked += 1

    def _ask_patiently(self, caller: Caller, text: str) -> str:
        try:
            caller.call("/v1/search", {"query": text})
        except CortexError as error:
            return error.code
        return "found"

    def _ask(self, client: httpx.Client, text: str) -> str:
        try:
            reply = client.post("/v1/search", json={"query": text})
        except httpx.HTTPError as error:
            return type(error).__name__
        if reply.is_success:
            self.degraded.update(f"{each['part']}: {each['reason']}" for each in reply.json()["degraded"])
            return "found"
        is_ours = reply.headers.get("content-type") == "application/problem+json"
        return f"{reply.status_code} {reply.json()['code'] if is_ours else reply.text[:60]}"
