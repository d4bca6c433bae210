"""The staged placement on real Ray Serve and real engines: it finds what the fused one finds, streams, and lets go."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.ray_home import wait_until
from tests.services.staged_home import ASKED, PEOPLE, StagedHome, staged_home

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

QUICKLY_S = 3.0
# Beyond the script: keywords, an exact term, another script, nothing that can be found, and a question of marks.
MORE = [
    "firmware", "expenses hotel", "ERR-4409", "TCK-1203", "data retention", "raw readings", "watchdog", "brown-out",
    "release checklist", "who is on call", "supply agreement", "termination", "error codes", "certificate",
    "travel policy", "kroner", "Lumi 3", "Polarhaus", "経費精算", "what is pi", "\"change of control\"", "onboarding",
    "holidays", "salary", "incident review", "backup", "pricing", "roadmap",
]  # fmt: skip


@pytest.fixture(scope="module")
def home() -> Iterator[StagedHome]:
    with staged_home() as made:
        yield made


def assert_parity(home: StagedHome, questions: list[str], people: tuple[str, ...]) -> None:
    asked = [(person, text) for person in people for text in questions]
    expected = home.fused(asked)
    for (person, text), wanted in zip(asked, expected, strict=True):
        assert home.staged(person, text) == wanted, (person, text)


def test_hits_order_and_scores_are_those_of_the_fused_placement(home: StagedHome) -> None:
    """Every field of every hit and of the evidence, for three people, is the same through stages as in one process."""
    assert_parity(home, [*ASKED[:8], "経費精算", "what is pi"], PEOPLE[:3])


@pytest.mark.slow
def test_fifty_questions_of_three_people_are_the_same(home: StagedHome) -> None:
    """The acceptance of the placement: fifty questions as three people, identical hits and order."""
    questions = [*ASKED, *MORE]
    assert len(questions) == 50
    assert_parity(home, questions, PEOPLE[:3])


def test_each_stage_is_a_deployment_of_its_own(home: StagedHome) -> None:
    """One process each, none for the reranker that is not set, and none that holds the whole path."""
    counts = {
        name: len(home.replicas(name))
        for name in ("ingress", "permissions", "understanding", "embedding", "search", "recheck", "generation", "rerank", "query")
    }  # fmt: skip
    assert counts == dict.fromkeys(counts, 1) | {"rerank": 0, "query": 0}


def test_errors_come_through_stages_as_themselves(home: StagedHome) -> None:
    """A stranger is refused by the permissions stage with the same code and status as in one process."""
    reply = httpx.post(
        f"{home.url}/v1/search",
        json={"query": "firmware"},
        headers=home.headers("eve@tarnvik.example"),
        timeout=60,
    )
    assert (reply.status_code, reply.json()["code"]) == (403, "user.unknown")


def test_tokens_stream_as_the_model_says_them(home: StagedHome) -> None:
    """The first token arrives long before the last is said, and none is lost."""
    arrived_s: list[float] = []
    said = ""
    question = {"query": "What does ERR-4417 mean?", "stream": True}
    with httpx.stream(
        "POST", f"{home.url}/v1/answer", json=question, headers=home.headers(PEOPLE[2]), timeout=60
    ) as reply:
        for line in reply.iter_lines():
            if line.startswith("data: ") and '"text"' in line and '"evidence"' not in line:
                said += json.loads(line.removeprefix("data: ")).get("text", "")
                arrived_s.append(time.monotonic())
    assert [f"word{number}" in said for number in range(1, home.model.n_words)] == [True] * (
        home.model.n_words - 1
    )
    assert arrived_s[-1] - arrived_s[0] > home.model.n_words * home.model.pause_s / 2


def test_a_reader_who_leaves_ends_the_models_work(home: StagedHome) -> None:
    """When the connection closes, the request to the model is closed within seconds, three processes away."""
    n_left = home.model.n_left
    home.model.n_words = 2_000
    try:
        question = {"query": "What does ERR-4417 mean?", "stream": True}
        with httpx.stream(
            "POST", f"{home.url}/v1/answer", json=question, headers=home.headers(PEOPLE[2]), timeout=60
        ) as reply:
            next(line for line in reply.iter_lines() if line == "event: token")
        wait_until(lambda: home.model.n_left == n_left + 1, timeout_s=QUICKLY_S)
    finally:
        home.model.n_words = 40


def test_a_question_is_one_trace_across_processes(home: StagedHome) -> None:
    """The caller's trace goes on in all seven processes, each engine's calls below its stage, and `cortex trace` shows it."""
    trace_id = secrets.token_hex(16)
    headers = {**home.headers(PEOPLE[2]), "traceparent": f"00-{trace_id}-{'b' * 16}-01"}
    question = {"query": "What does ERR-4417 mean?"}
    reply = httpx.post(f"{home.url}/v1/answer", json=question, headers=headers, timeout=60)
    assert (reply.json()["mode"], reply.json()["trace_id"]) == ("generated", trace_id)

    shown = home.scratch.cortex("trace", trace_id).document
    spans = {each["span_id"]: each for each in shown["spans"]}
    assert [each["name"] for each in spans.values() if each["depth"] == 0] == ["POST /v1/answer"]
    asked = {"permissions", "understanding", "embedding", "search", "recheck", "generation"}
    assert {each["process"] for each in spans.values()} == {"ingress", *asked}
    assert len({each["pid"] for each in spans.values()}) == 7
    for each in spans.values():
        if each["process"] != "ingress" and each["kind"] == "server":
            call = spans[each["parent_id"]]
            assert (call["process"], call["kind"], call["name"]) == ("ingress", "client", each["name"])
            assert call["duration_ms"] >= each["duration_ms"]
    placed = {(each["process"], each["name"].partition("-")[0]) for each in spans.values()}
    assert placed >= {
        ("permissions", "postgresql permit"),
        ("embedding", "embeddings all"),
        ("search", "qdrant query_batch_points"),
        ("recheck", "postgresql hydrate"),
        ("recheck", "spicedb CheckBulkPermissions"),
        ("generation", "chat tiny"),
        ("ingress", "postgresql record_answer"),
    }
    assert (shown["n_broken_lines"], "ERR-4417" in json.dumps(shown)) == (0, False)

    events = [json.loads(line) for line in _events(home) if trace_id in line]
    assert [(each["event"], each["route"], each["mode"]) for each in events] == [
        ("request.finish", "/v1/answer", "generated")
    ]
    counted = httpx.get(f"{home.url}/metrics", timeout=60).raise_for_status().text
    assert {each for each in asked if f'stage="{each}"' in counted} == asked


def _events(home: StagedHome) -> list[str]:
    """The log lines of all replicas."""
    logs = Path(home.scratch.state.env["CORTEX_RAY_TEMP_DIR"], "session_latest", "logs").glob("worker-*.err")
    return [
        line for log in logs for line in log.read_text(errors="replace").splitlines() if line.startswith("{")
    ]
