"""`cortex trace`: the waterfall of a question that was asked over HTTP, and of whatever else may lie in the files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from clients.cli import waterfall
from clients.cli.spans import in_order
from clients.cli.waterfall import trace
from cortex.principals import Principal
from cortex.settings import Settings, settings
from cortex.tokens import local_private_key, sign
from cortex.traces import SpanRecord, span_line
from serve_apps.fused import FusedQueries
from serve_apps.service import Backend
from serve_apps.tracing import flush_traces, setup_tracing
from tests.twins.query import TENANT, TwinWorld
from tests.twins.running_app import serving
from tests.twins.service import TwinDesk
from tests.twins.stages import staged

ANN = "ann@example.com"
TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
Run = Callable[..., Result]


@dataclass(frozen=True, slots=True)
class App:
    """A running app: its address and its settings."""

    url: str
    settings: Settings


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run the command in a home, as an operator's shell would."""
    monkeypatch.setenv("CORTEX_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(waterfall, "WRITTEN_WITHIN_S", 0.01)
    settings.cache_clear()
    yield lambda *arguments: CliRunner().invoke(trace, arguments, prog_name="cortex trace")
    settings.cache_clear()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """The query path over twins, each part behind a stage's handle, on a socket; its spans are kept."""
    world = TwinWorld({"hours": ["The office opens at nine."]}, {"hours": frozenset({ANN})})
    home = Settings(home=tmp_path, tenant_id=TENANT)
    setup_tracing(home, "ingress")
    with serving(Backend(FusedQueries(staged(world.parts())), TwinDesk()), home) as url:
        yield App(url, home)
    setup_tracing(Settings(trace_bytes=0), "ingress")


def ask(app: App, **headers: str) -> httpx.Response:
    key = sign(Principal(TENANT, ANN), local_private_key(app.settings), 60)
    reply = httpx.post(
        f"{app.url}/v1/search",
        json={"query": "when does the office open"},
        headers={"authorization": f"Bearer {key}", **headers},
    )
    # The span of the request ends a moment after its last byte was sent.
    while b"POST /v1/search" not in _kept(app.settings):
        time.sleep(0.01)
        flush_traces()
    return reply.raise_for_status()


def _kept(home: Settings) -> bytes:
    return b"".join(path.read_bytes() for path in home.traces_path.glob("*"))


def test_a_question_is_shown_as_a_waterfall(app: App, run: Run) -> None:
    """From the caller's traceparent to the stages: each line has name, process, time and a bar within the whole."""
    reply = ask(app, traceparent=f"00-{TRACE_ID}-{PARENT_ID}-01")
    assert reply.json()["trace_id"] == TRACE_ID
    result = run(TRACE_ID)
    head, facts, blank, *lines = result.stdout.splitlines()
    assert (result.exit_code, head, blank) == (0, f"trace {TRACE_ID}", "")
    assert f"{len(lines)} spans · 1 process" in facts
    names = [line.split()[0] for line in lines]
    assert names[:3] == ["POST", "total", "permit"]
    assert {"understand", "embed", "search", "search.search", "recheck", "recheck.rank", "assemble"} <= {
        *names
    }
    depths = {name: len(line) - len(line.lstrip()) for name, line in zip(names, lines, strict=True)}
    assert depths["POST"] < depths["total"] < depths["search"] < depths["search.search"]
    bars = [line for line in lines if line.endswith(("█", "▏"))]
    assert len(bars) == len(lines) and all(len(line) <= 100 for line in lines)
    whole = next(line for line in lines if line.startswith("POST"))
    assert whole.count("█") == max(line.count("█") for line in lines)


def test_the_document_says_it_all(app: App, run: Run) -> None:
    """`--json` gives every span with offset and time; a trace begun here is found by its first digits."""
    trace_id = ask(app).json()["trace_id"]
    found = json.loads(run(trace_id[:6].upper(), "--json").stdout)
    request, *others = found["spans"]
    assert (found["trace_id"], found["n_broken_lines"]) == (trace_id, 0)
    assert (request["name"], request["depth"], request["parent_id"], request["process"]) == (
        "POST /v1/search",
        0,
        "",
        "ingress",
    )
    assert request["attributes"]["http.response.status_code"] == 200
    assert found["duration_ms"] >= request["duration_ms"] > 0
    for each in others:
        assert (
            0 <= each["offset_ms"] <= each["offset_ms"] + each["duration_ms"] <= found["duration_ms"] + 0.002
        )
    text = json.dumps(found)
    assert not any(secret in text for secret in ("office", "nine", ANN))


def span(span_id: str, parent_id: str = "", start: int = 0, **others: Any) -> SpanRecord:
    record = SpanRecord(
        TRACE_ID, span_id, parent_id, f"step {span_id}", "internal", "query", 7, start, 1_000_000
    )
    return replace(record, **others)


def keep(home: Path, *records: SpanRecord, after: bytes = b"") -> None:
    folder = Settings(home=home).traces_path
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "query-7.jsonl").open("ab") as file:
        file.write(b"".join(map(span_line, records)) + after)


def test_broken_lines_are_skipped_and_counted(run: Run, tmp_path: Path) -> None:
    """A line that a crash tore, or that is none of ours, hides no other."""
    torn = span_line(span("c"))[:-9]
    keep(tmp_path, span("a"), span("b", "a"), after=b"nothing\n" + torn + b"\n" + torn)
    result = run(TRACE_ID)
    assert (result.exit_code, result.stdout.count("step")) == (0, 2)
    assert result.stdout.splitlines()[-1] == "3 broken lines were skipped"
    assert json.loads(run(TRACE_ID, "--json").stdout)["n_broken_lines"] == 3


def test_failures_stand_behind_their_bars(run: Run, tmp_path: Path) -> None:
    """The code of what failed is on its line, and nothing is on the others."""
    keep(tmp_path, span("a"), span("b", "a", error="index.unavailable"))
    sound, failed = run(TRACE_ID).stdout.splitlines()[3:]
    assert failed.endswith(" index.unavailable")
    assert sound.endswith("█")


@pytest.mark.parametrize(
    ("trace_id", "code", "exit_code"),
    [
        ("abcd", "trace.unknown", 4),
        ("4bf", "trace.malformed", 2),
        ("4bf9-2f35", "trace.malformed", 2),
        (TRACE_ID + "0", "trace.malformed", 2),
        ("../..", "trace.malformed", 2),
        ("4bf9", "trace.ambiguous", 2),
    ],
)
def test_what_cannot_be_shown_says_why(
    run: Run, tmp_path: Path, trace_id: str, code: str, exit_code: int
) -> None:
    """Unknown, no id at all, or the beginning of several: each has its code and what to do."""
    keep(tmp_path, span("a"), span("b", trace_id="4bf9" + "0" * 28))
    result = run(trace_id, "--json")
    error = json.loads(result.stdout)["error"]
    assert (error["code"], result.exit_code) == (code, exit_code)
    assert error["hint"]


def test_a_request_that_lasts_longer_than_its_steps_is_waited_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an answer streams, its steps are written long before its own span; after ten minutes nobody waits for that."""
    asked_at_ns = time.time_ns() - 6_000_000_000
    keep(tmp_path, span("b", "a", start=asked_at_ns))
    whole = span("a", start=asked_at_ns, duration_ns=6_000_000_000, name="POST /v1/answer")
    monkeypatch.setattr(waterfall.time, "sleep", lambda _: keep(tmp_path, whole))
    assert [each["name"] for each in json.loads(run(TRACE_ID, "--json").stdout)["spans"]] == [
        "POST /v1/answer",
        "step b",
    ]

    keep(tmp_path, span("d", "c", start=asked_at_ns - 600_000_000_000, trace_id="5" * 32))
    monkeypatch.setattr(waterfall.time, "sleep", lambda _: pytest.fail("waited for what never comes"))
    assert run("5" * 32).exit_code == 0


def test_a_home_without_traces_has_none(run: Run) -> None:
    """Before the first question there is nothing to wait for."""
    assert json.loads(run(TRACE_ID, "--json").stdout)["error"]["code"] == "trace.unknown"


def test_spans_are_in_order_whatever_is_missing() -> None:
    """A lost parent makes its children roots, and spans that name each other as parents are shown all the same."""
    spans = [
        span("child", "root", 30),
        span("root", "elsewhere", 10),
        span("early", "root", 20),
        span("lost", "gone", 5),
        span("one", "two", 40),
        span("two", "one", 41),
        span("self", "self", 50),
    ]
    assert [(depth, each.span_id) for depth, each in in_order(spans)] == [
        (0, "lost"),
        (0, "root"),
        (1, "early"),
        (1, "child"),
        (0, "one"),
        (1, "two"),
        (0, "self"),
    ]


def test_a_name_from_a_file_cannot_move_the_cursor(run: Run, tmp_path: Path) -> None:
    """Whatever a file holds, a terminal gets plain letters."""
    keep(tmp_path, span("a", name="\x1b[2J\u202estep", process="q\x07uery", error="x\x1b.y"))
    assert not {"\x1b", "\x07", "\u202e"} & {*run(TRACE_ID).stdout}
