"""The query path, top to bottom. READ THIS FIRST.

A question becomes evidence, and evidence an answer. Each step is one file beside this one, one span and one timing;
the numbers are its budget on one machine in milliseconds, before generation.

    step        what it does                                                        p50   p95   p99
    permit      who asks: access profiles, and the token checks must be as fresh as   3    10    25
    understand  query shape -> lanes and weights, no model; while permit runs         0     0     1
    embed       the question, for the dense lane; while permit runs              20   120   250
    search      dense and BM25 under the permit's filter, fused by the index         27    76   162
    recheck     the catalog's current rows, SpiceDB; refilled until enough            30    80   150
    rerank      a cross-encoder, only if configured                                  40   120   300
    assemble    duplicates folded, neighbours merged, numbered                       10    30    60
    support     does the evidence support an answer at all                            5    10    20
    the whole path                                                                  105   400   800

From recheck on, everything is a function of what this reader may see and of nothing else. A lane that fails is named
in `degraded`; permissions that cannot be checked close the search.

Every step asks ports, never a place: in the fused placement they are objects of this process, in the staged one handles
of deployments, and this file is the same in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from cortex.evidence import AnswerEvent, AnswerEventKind, Question, SearchResult
from cortex.ports.models import Generator, LexicalEncoder
from cortex.ports.query import (
    PassageReranker,
    PermissionChecker,
    QueryCatalog,
    QuestionEmbedder,
    SearchIndex,
)
from cortex.principals import Principal
from retrieval.assemble import assemble
from retrieval.draft import Draft
from retrieval.extract import quote
from retrieval.fuse import Fusion
from retrieval.generate import generate
from retrieval.permit import permit
from retrieval.plan import Plan
from retrieval.recheck import CatalogReaders, Readers, recheck
from retrieval.rerank import rerank
from retrieval.run import Run, together
from retrieval.search import Probe, embed, encode, search_lanes
from retrieval.support import weigh_support
from retrieval.understand import LanePlan, Understanding
from retrieval.wording import Wording


@dataclass(frozen=True, slots=True)
class Parts:
    """What the query path works with: the ports, and the plan from the settings.

    Without `readers`, the recheck is done here, over the catalog and the checker.
    """

    catalog: QueryCatalog
    index: SearchIndex
    checker: PermissionChecker
    embedder: QuestionEmbedder
    lexical: LexicalEncoder
    understanding: Understanding
    reranker: PassageReranker | None = None
    generator: Generator | None = None
    plan: Plan = field(default_factory=Plan)
    readers: Readers | None = None


async def search(parts: Parts, principal: Principal, question: Question) -> SearchResult:
    """Find what answers a question among what the principal may see.

    Raises Forbidden for an unknown user, ChecksUnavailable when permissions cannot be checked, Unavailable when no
    lane answers.
    """
    return await _search(Run(question.trace_id), parts, principal, question)


async def answer(parts: Parts, principal: Principal, question: Question) -> AsyncGenerator[AnswerEvent, None]:
    """Answer a question: its evidence once, then text and citations as they come, then the whole answer once.

    Raises what search raises, before the first event; once evidence is out, an answer always follows.
    """
    run = Run(question.trace_id)
    result = await _search(run, parts, principal, question)
    if not result.support.is_sufficient:
        result = replace(result, fragments=())
    yield AnswerEvent(AnswerEventKind.EVIDENCE, result=result)

    draft = Draft(run, question.text, result.fragments)
    if not result.fragments:
        for event in draft.abstain():
            yield event
        return
    if parts.generator is not None:
        generating = generate(run, parts.generator, draft, result.fragments, parts.plan.llm_timeout_s)
        async with aclosing(generating):
            async for event in generating:
                yield event
        if draft.is_done:
            return
    embedder = parts.embedder if result.support.top_cosine is not None else None
    for event in await quote(run, embedder, parts.lexical, draft, result.fragments):
        yield event


async def _search(run: Run, parts: Parts, principal: Principal, question: Question) -> SearchResult:
    plan = parts.plan
    with run.timed("total"):
        permitted, (lanes, probe) = await together(
            permit(run, parts.catalog, principal), _read(run, parts, question)
        )
        wording = Wording(parts.lexical, question.text)
        fusion = Fusion.of(lanes, plan, question.depth)
        pool = await search_lanes(run, parts.index, permitted, probe, question.filters, fusion)
        readers = parts.readers or CatalogReaders(parts.catalog, parts.checker, plan.recheck_round)
        hits = await recheck(run, pool, readers.open(permitted, wording), fusion, question.depth)
        if parts.reranker is not None:
            hits = await rerank(run, parts.reranker, question.text, hits, plan.rerank_depth)
        with run.timed("assemble"):
            fragments = assemble(hits, question.k)
        with run.timed("support"):
            support = weigh_support(wording, hits, plan.abstain_below)
    return SearchResult(
        hits=tuple(hits),
        fragments=fragments,
        support=support,
        degraded=tuple(run.degraded),
        timings_ms=run.timings(),
        trace_id=run.trace_id,
    )


async def _read(run: Run, parts: Parts, question: Question) -> tuple[LanePlan, Probe]:
    """Understand a question, and encode it for the lanes that it needs.

    By rules it is understood at once. While a stage reads it, it is embedded already: nearly all need that.
    """
    understanding = asyncio.create_task(_understand(run, parts, question))
    try:
        await asyncio.sleep(0)
        needs_dense = understanding.result().weight_dense > 0 if understanding.done() else True
        dense = await embed(run, parts.embedder, question) if needs_dense else None
        lanes = await understanding
    finally:
        understanding.cancel()
    return lanes, encode(run, parts.lexical, question, lanes, dense)


async def _understand(run: Run, parts: Parts, question: Question) -> LanePlan:
    with run.timed("understand"):
        return await parts.understanding.understand(question)
