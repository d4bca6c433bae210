"""Search: the question encoded for each lane, and the pool of candidates that the lanes return, read as deep as needed.

A lane that fails, or that finds nothing to search for, leaves a `degraded` note under its own name; when every lane
that should have run fails, the search fails: an engine that is down never looks like an empty result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cortex.chunks import SparseVector
from cortex.errors import Busy, CortexError, InputError, TimedOut, Unavailable
from cortex.evidence import Candidate, Filters, Question
from cortex.ports.models import LexicalEncoder
from cortex.ports.query import IndexQuery, QuestionEmbedder, SearchIndex
from cortex.principals import Permit
from retrieval.fuse import Fusion, lane_length
from retrieval.run import Run, step
from retrieval.understand import LanePlan

_DEEPEN_BY = 4
_DEEPEST_TIMES = 64  # a pool this many times deeper than wanted is given up, with a note


# A unit vector; None when nobody asked for one; or why there is none.
Embedded: TypeAlias = "NDArray[np.float32] | CortexError | None"


@dataclass(frozen=True, slots=True)
class Probe:
    """A question as the lanes see it; None where a lane does not run."""

    dense: NDArray[np.float32] | None
    sparse: SparseVector | None


@step("embed")
async def embed(run: Run, embedder: QuestionEmbedder, question: Question) -> Embedded:
    """Embed a question for the dense lane; what went wrong is returned, and matters only to whom that lane matters."""
    if "dense" not in question.lanes:
        return None
    try:
        rows = await embedder.embed_queries([question.text])
    except CortexError as error:
        return error
    row: NDArray[np.float32] = rows[0]
    return row


def encode(
    run: Run, lexical: LexicalEncoder, question: Question, lanes: LanePlan, embedded: Embedded
) -> Probe:
    """Encode a question for the lanes of its plan. Raises Busy when the model has too much to do."""
    sparse = _encode_terms(run, lexical, question.text) if lanes.weight_bm25 else None
    dense = _dense(run, embedded) if lanes.weight_dense else None
    if not lanes.weight_dense and "dense" in question.lanes:
        run.degrade(
            "dense",
            "lane.unknown_script",
            "The embedding model does not know this script; words alone were matched.",
        )
    if dense is None and sparse is None:
        if any(note.code == "lane.failed" for note in run.degraded):
            raise Unavailable("no search lane can run", code="lanes.unavailable")
        raise InputError("the question holds nothing that can be searched for", code="question.unsearchable")
    return Probe(dense, sparse)


def _encode_terms(run: Run, lexical: LexicalEncoder, text: str) -> SparseVector | None:
    sparse = lexical.encode_query(text)
    if sparse.indices:
        return sparse
    run.degrade("bm25", "lane.no_terms", "The lexical lane found no terms in the question.")
    return None


def _dense(run: Run, embedded: Embedded) -> NDArray[np.float32] | None:
    if isinstance(embedded, Busy):
        raise embedded  # asked again in a moment, the question gets both lanes
    if isinstance(embedded, CortexError):
        _note_failure(run, "dense", embedded)
        return None
    return embedded


class Pool:
    """The candidates of one question. `deepen` reads every lane deeper and replaces the fused list.

    A candidate keeps its rank within each lane, however deep the lane is read.
    """

    def __init__(self, run: Run, index: SearchIndex, query: IndexQuery) -> None:
        self._run = run
        self._index = index
        self._query = query
        self._deepest = query.lane_limit * _DEEPEST_TIMES
        self.candidates: list[Candidate] = []

    async def read(self) -> None:
        """Read the lanes at their present depth."""
        n_lanes = (self._query.dense is not None) + (self._query.sparse is not None)
        self.candidates = await self._ask(replace(self._query, limit=self._query.lane_limit * n_lanes))

    async def deepen(self) -> None:
        """Read the lanes several times deeper."""
        self._query = replace(self._query, lane_limit=self._query.lane_limit * _DEEPEN_BY)
        await self.read()

    def may_deepen(self, lane: str) -> bool:
        """Say whether a lane may hold more than was read; at the depth limit it counts as ended, with a note."""
        if lane_length([each.lanes for each in self.candidates], lane) < self._query.lane_limit:
            return False
        if self._query.lane_limit >= self._deepest:
            self._run.degrade(
                "search", "pool.limited", "The search stopped at its depth limit: more may exist."
            )
            return False
        return True

    async def _ask(self, query: IndexQuery) -> list[Candidate]:
        """Ask all lanes in one call; should that fail, each alone, so that one broken lane does not take the other."""
        try:
            return await self._index.search(query)
        except (TimedOut, Busy):
            raise
        except CortexError as error:
            if error.error_code == "index.missing":
                raise  # nothing was loaded yet: no lane is broken
            if query.dense is None or query.sparse is None:
                raise _unavailable(error) from error
            failure = error
        for broken, alone in (("bm25", replace(query, sparse=None)), ("dense", replace(query, dense=None))):
            try:
                found = await self._index.search(alone)
            except CortexError as error:
                failure = error
                continue
            _note_failure(self._run, broken, failure)
            self._query = alone
            return found
        raise _unavailable(failure) from failure


@step("search")
async def search_lanes(
    run: Run, index: SearchIndex, permit: Permit, probe: Probe, filters: Filters, fusion: Fusion
) -> Pool:
    """Open the pool of a question: both lanes in one call, the permit's profiles as the filter of each."""
    query = IndexQuery(
        permit=permit,
        dense=probe.dense,
        sparse=probe.sparse,
        filters=filters,
        limit=0,
        weight_dense=fusion.weight_dense,
        weight_bm25=fusion.weight_bm25,
        fusion_k=fusion.k,
        lane_limit=fusion.lane_limit,
    )
    pool = Pool(run, index, query)
    await pool.read()
    return pool


def _note_failure(run: Run, lane: str, error: CortexError) -> None:
    run.degrade(lane, "lane.failed", f"The {lane} lane did not answer ({error.error_code}).")


def _unavailable(error: CortexError) -> Unavailable:
    return Unavailable("the search index does not answer", code="lanes.unavailable", cause=error.error_code)
