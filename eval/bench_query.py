"""`cortex bench query`: questions over HTTP beside their raw parts, at one client and at eight, and answers that stream."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from cortex.errors import Corrupt, Unavailable
from cortex.principals import Principal
from cortex.settings import Settings
from eval.company import Asked, people, write_company
from eval.crowd import CrowdRound, crowd_document, crowd_round
from eval.display import Watch
from eval.drops import drop_all
from eval.first_token import FirstToken, first_token_document, first_token_round
from eval.plain_http import Client
from eval.processes import await_stillness
from eval.query_rounds import Placement, Round, retrieval_document, targets
from eval.raw_parts import SEARCH, Prepared, authorization, open_sampler, prepare
from eval.scratch import environment, restart, run_cortex, scratch_home
from eval.streams import stream_all
from eval.upstream import Control, running_upstream

_LOAD_TIMEOUT_S = 3_600.0
_DEPLOY_TIMEOUT_S = 180.0
_ANSWER_TIMEOUT_S = 120.0
_MOST_STREAMS = 50  # of a round's time to first token
_SPARE_SEATS = 56
_SEED = 1


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How much is measured: rounds and questions in each, notes loaded, streams at once, clients who leave; 0 of these: none."""

    placements: Sequence[Placement]
    rounds: int
    n_questions: int
    n_notes: int
    n_streams: int
    n_drops: int


def measure_query(plan: QueryPlan, on_progress: Watch) -> dict[str, Any]:
    """Load one company's notes into a scratch home, and measure the placements in it, one after the other."""
    with (
        TemporaryDirectory() as folder,
        running_upstream() as upstream,
        environment(**_variables(plan, upstream)),
        scratch_home(engines=()) as settings,
    ):
        notes = Path(folder) / "notes"
        questions = write_company(notes, plan.n_notes, plan.n_questions, _SEED)
        n_chunks = _load(notes, plan.n_notes)
        on_progress("notes loaded", 1, 1)
        measured: dict[Placement, dict[str, Any]] = {}
        for placement in plan.placements:
            running = _started(placement) if measured else settings
            measured[placement] = _Bench(plan, running, upstream, on_progress).measure(questions)
    held = [{**asdict(target), "is_met": target.is_met} for target in targets(measured)]
    return {
        "n_notes": plan.n_notes,
        "n_chunks": n_chunks,
        "n_people": len(people()),
        "rounds": plan.rounds,
        "n_questions": len(questions),
        "placements": measured,
        "targets": held,
        "n_cores": os.cpu_count(),
    }


def _variables(plan: QueryPlan, upstream: Control) -> dict[str, str]:
    """Settings of the home: the synthetic model, and seats for every stream at once."""
    return {
        "CORTEX_HTTP_PORT": "0",
        "CORTEX_PLACEMENT": plan.placements[0],
        "CORTEX_LLM_URL": upstream.url,
        "CORTEX_LLM_MODEL": "synthetic",
        "CORTEX_MAX_CONCURRENT_REQUESTS": str(max(64, plan.n_streams + _SPARE_SEATS)),
    }


def _started(placement: Placement) -> Settings:
    """Start the home again, in another placement."""
    with environment(CORTEX_PLACEMENT=placement):
        return restart()


def _load(folder: Path, n_notes: int) -> int:
    """Load the notes; returns the number of chunks. Raises Corrupt when one is missing."""
    report = json.loads(run_cortex("ingest", "files", str(folder), "--json", timeout_s=_LOAD_TIMEOUT_S))
    if (report["indexed"], report["failed"]) != (n_notes, []):
        raise Corrupt(f"the load is not whole: {str(report)[:400]}", code="scratch.failed")
    return int(report["chunks"])


class _Bench:
    """One placement, measured in the home that runs."""

    def __init__(self, plan: QueryPlan, settings: Settings, upstream: Control, on_progress: Watch) -> None:
        self._plan = plan
        self._settings = settings
        self._upstream = upstream
        self._on_progress = on_progress

    def measure(self, questions: Sequence[Asked]) -> dict[str, Any]:
        """Measure everything that the plan asks for."""
        _deploy_empty_route(self._settings)
        _await_answer(self._settings, questions[0])
        prepared = asyncio.run(prepare(self._settings, questions))
        answerable = [one for one in prepared if one.is_answerable]
        if not answerable:
            raise Corrupt("no question has enough evidence for an answer", code="scratch.failed")
        await_stillness(self._settings)
        searches, crowds, first_tokens = self._rounds(prepared, answerable[:_MOST_STREAMS])
        document: dict[str, Any] = {
            "profiles_each": median(len(one.permit.profile_ids) for one in prepared),
            "n_answerable": len(answerable),
            "retrieval": retrieval_document(searches, self._settings.placement),
            "eight_clients": crowd_document(crowds),
            "first_token": first_token_document(first_tokens),
        }
        if self._plan.n_streams:
            document["streams"] = stream_all(self._settings, self._upstream, answerable, self._plan.n_streams)
            self._tell("streams at once", 1, 1)
        if self._plan.n_drops:
            document["drops"] = drop_all(
                self._settings, self._upstream, answerable, self._plan.n_drops, self._on_progress
            )
        return document

    def _rounds(
        self, prepared: Sequence[Prepared], answerable: Sequence[Prepared]
    ) -> tuple[list[Round], list[CrowdRound], list[list[FirstToken]]]:
        """Time one client, eight clients and first tokens in turns, round by round."""
        searches: list[Round] = []
        crowds: list[CrowdRound] = []
        first_tokens: list[list[FirstToken]] = []
        crowd_round(self._settings, prepared)  # the way that eight take is warmed up as well
        for number in range(1, self._plan.rounds + 1):
            searches.append(asyncio.run(self._search_round(prepared, number)))
            crowds.append(crowd_round(self._settings, prepared))
            first_tokens.append(first_token_round(self._settings, self._upstream, answerable))
            self._tell("rounds", number, self._plan.rounds)
        return searches, crowds, first_tokens

    async def _search_round(self, prepared: Sequence[Prepared], number: int) -> Round:
        async with open_sampler(self._settings) as sampler:
            await sampler.sample(prepared[0], number)  # opens the connections
            return [await sampler.sample(one, number + turn) for turn, one in enumerate(prepared)]

    def _tell(self, step: str, done: int, total: int) -> None:
        self._on_progress(f"{self._settings.placement}: {step}", done, total)


def _await_answer(settings: Settings, asked: Asked) -> None:
    """Return once a question is answered: after a load, permissions may still be on their way. Raises Unavailable."""
    headers = authorization(settings, Principal(settings.tenant_id, asked.person))
    give_up_at_s = time.monotonic() + _ANSWER_TIMEOUT_S
    while True:
        try:
            with Client(settings.http_url) as client:
                client.post(SEARCH, json.dumps({"query": asked.text}).encode(), headers)
            return
        except Unavailable:
            if time.monotonic() > give_up_at_s:
                raise
            time.sleep(1.0)


def _deploy_empty_route(settings: Settings) -> None:
    """Put the app that answers nothing beside the query app, as the home's own processes reach Ray."""
    told = json.loads(settings.state_path.read_text())["env"]
    done = subprocess.run(
        [sys.executable, "-m", "serve_apps.empty"],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=_DEPLOY_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"the empty route was not deployed: {done.stderr[-600:]}", code="scratch.failed")
