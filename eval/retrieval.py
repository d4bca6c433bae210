"""`cortex eval retrieval`: a BEIR set through ordinary ingest, filter, search and recheck, in a scratch home."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from cortex.errors import Unavailable
from cortex.evidence import Question, SearchResult
from cortex.ids import document_id, source_id
from cortex.ports.connectors import SourceConfig
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.ingest import ingest
from data_jobs.parts import open_catalog
from data_jobs.run import Counts
from eval.datasets import Dataset, JudgedQuery, read_dataset
from eval.intervals import Estimate
from eval.retrieval_scores import DEPTH, collapse, score_rankings
from retrieval.path import search
from serve_apps.parts import open_parts

# Lanes alone, beside the plan that Cortex really uses.
LANES: dict[str, tuple[str, ...]] = {"bm25": ("bm25",), "dense": ("dense",)}
PLAN = "plan"
READER = "judge@eval.example"
# Chunks asked for, so that 200 documents remain after collapsing; a document has few chunks.
_N_HITS = 2 * DEPTH
# Questions asked one at a time, for the median; the others keep the processors busy together.
_N_TIMED = 30
_AT_ONCE = 3
_TRIES = 10


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """Scores of the plan and of each lane alone, with what was indexed."""

    dataset: str
    n_documents: int
    n_failed: int
    n_queries: int
    scores: Mapping[str, Mapping[str, Estimate]]
    degraded: tuple[str, ...]
    ingest_s: float
    query_ms: float


Progress = Callable[[str, int, int], None]


def evaluate_retrieval(settings: Settings, folder: Path, on_progress: Progress) -> RetrievalReport:
    """Load a set into the home that `settings` names and score it; the home must be a scratch one."""
    source = _source(settings, folder)
    dataset = _by_document_id(read_dataset(folder), source)
    loaded = ingest(settings, source, on_progress=_watch(on_progress))
    with open_catalog(settings) as catalog:
        catalog.ensure_users(settings.tenant_id, [READER])
    rankings, degraded, query_ms = asyncio.run(_rank(settings, dataset, on_progress))
    queries = dataset.judged
    return RetrievalReport(
        dataset=dataset.name,
        n_documents=loaded.indexed,
        n_failed=len(loaded.failed),
        n_queries=len(queries),
        scores={name: score_rankings(rankings[name], queries) for name in rankings},
        degraded=degraded,
        ingest_s=loaded.seconds,
        query_ms=query_ms,
    )


def as_document(report: RetrievalReport) -> dict[str, object]:
    """State a report as the JSON document of the command: the plan's figures on top, the lanes' under `lanes`."""
    figures = {name: _figures(scores) for name, scores in report.scores.items()}
    return {
        "dataset": report.dataset,
        "n_documents": report.n_documents,
        "n_failed": report.n_failed,
        "n_queries": report.n_queries,
        **figures.pop(PLAN),
        "lanes": figures,
        "degraded": list(report.degraded),
        "ingest_s": round(report.ingest_s, 2),
        "query_p50_ms": round(report.query_ms, 2),
    }


def _figures(scores: Mapping[str, Estimate]) -> dict[str, dict[str, float]]:
    return {
        name: {"value": round(e.value, 4), "low": round(e.low, 4), "high": round(e.high, 4)}
        for name, e in scores.items()
    }


def _source(settings: Settings, folder: Path) -> SourceConfig:
    return SourceConfig(
        tenant_id=settings.tenant_id,
        source_id=source_id(settings.tenant_id, "beir", str(folder)),
        source_type="beir",
        name=str(folder),
        options={"root": str(folder)},
    )


def _by_document_id(dataset: Dataset, source: SourceConfig) -> Dataset:
    """Name the judged documents as the catalog does."""
    queries = tuple(
        replace(
            query,
            relevant={
                document_id(source.tenant_id, source.source_id, name): grade
                for name, grade in query.relevant.items()
            },
        )
        for query in dataset.queries
    )
    return replace(dataset, queries=queries)


def _watch(on_progress: Progress) -> Callable[[Counts], None]:
    return lambda counts: on_progress(
        "ingest", counts.indexed + counts.unchanged + counts.failed, counts.total
    )


async def _rank(
    settings: Settings, dataset: Dataset, on_progress: Progress
) -> tuple[dict[str, dict[str, list[str]]], tuple[str, ...], float]:
    """Rank every judged query under the plan and under each lane alone; returns rankings, notices and the median ms.

    The median is that of the plan's first questions, asked one at a time; the others are asked a few at once.
    """
    rankings: dict[str, dict[str, list[str]]] = {}
    notices: set[str] = set()
    reader = Principal(settings.tenant_id, READER)
    async with open_parts(settings) as parts:

        async def rank(name: str, lanes: tuple[str, ...], query: JudgedQuery) -> float:
            result = await _patiently(
                partial(search, parts, reader, Question(query.text, depth=_N_HITS, lanes=lanes))
            )
            rankings[name][query.query_id] = collapse(hit.document_id for hit in result.hits)
            notices.update(f"{name}: {note.part}: {note.code}" for note in result.degraded)
            on_progress(name, len(rankings[name]), len(dataset.judged))
            return result.timings_ms["total"]

        plan = Question("x").lanes
        rankings[PLAN] = {}
        plan_ms = [await rank(PLAN, plan, query) for query in dataset.judged[:_N_TIMED]]
        await _for_each(dataset.judged[_N_TIMED:], partial(rank, PLAN, plan))
        for name, lanes in LANES.items():
            rankings[name] = {}
            await _for_each(dataset.judged, partial(rank, name, lanes))
    return rankings, tuple(sorted(notices)), median(plan_ms) if plan_ms else 0.0


async def _patiently(ask: Callable[[], Awaitable[SearchResult]]) -> SearchResult:
    """Ask again what was refused because an engine was too busy; the last refusal is raised."""
    for _ in range(_TRIES - 1):
        with suppress(Unavailable):
            return await ask()
        await asyncio.sleep(1.0)
    return await ask()


async def _for_each(queries: Iterable[JudgedQuery], ask: Callable[[JudgedQuery], Awaitable[float]]) -> None:
    waiting = iter(queries)

    async def work() -> None:
        for query in waiting:
            await ask(query)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
