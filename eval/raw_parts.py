"""A search taken apart: over HTTP, its raw parts by the adapters' own calls, and the same bytes sent to the engines alone.

Whatever is timed for one question is timed within a fraction of a second, and what goes first changes from question to
question: what warms or tires the machine falls on all of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from adapters.spicedb.checker import read_answer
from cortex.evidence import Candidate, Question
from cortex.ports.query import IndexQuery, PermissionChecker, SearchIndex
from cortex.principals import Permit, Principal
from cortex.settings import Settings
from cortex.tokens import local_private_key, sign
from eval.company import Asked
from eval.plain_http import Client, Reply
from eval.query_rounds import Timed
from eval.recording import Recording, Sent, recording_grpc, recording_http
from retrieval.fuse import Fusion
from retrieval.path import Parts
from retrieval.permit import permit
from retrieval.run import Run
from retrieval.search import embed, encode, search_lanes
from serve_apps.parts import open_checker, open_index, open_parts

SEARCH, EMPTY = "/v1/search", "/empty/"
_TOKEN_TTL_S = 6 * 3600
_HYBRID = "/points/query/batch"
_CHECK = "/CheckBulkPermissions"
_N_FIRST = 10  # the note that answers must be among so many hits


@dataclass(frozen=True, slots=True)
class Prepared:
    """One question with all that its timing needs; `hybrid_sent` and `check_sent` are what the adapters put on the wire."""

    asked: Asked
    permit: Permit
    headers: dict[str, str]
    query: IndexQuery
    document_ids: tuple[str, ...]
    hybrid_sent: tuple[Sent, ...]
    check_sent: tuple[Sent, ...]
    is_answerable: bool

    @property
    def body(self) -> bytes:
        """The request that a client sends."""
        return json.dumps({"query": self.asked.text}).encode()


class _Catching:
    """An index that remembers what the query path asked of it."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self.query: IndexQuery | None = None

    async def search(self, query: IndexQuery) -> list[Candidate]:
        """Search, and remember the first query."""
        self.query = self.query or query
        return await self._index.search(query)

    async def ping(self) -> None:
        """Ask the index."""
        await self._index.ping()


async def prepare(settings: Settings, questions: Sequence[Asked]) -> list[Prepared]:
    """Ask every question once, over HTTP and through adapters whose requests are recorded."""
    with recording_http(settings.qdrant_url) as http, recording_grpc(settings.spicedb_url) as rpc:
        relayed = settings.model_copy(update={"qdrant_url": http.address, "spicedb_url": rpc.address})
        async with (
            open_parts(settings) as parts,
            open_index(relayed) as index,
            open_checker(relayed) as checker,
        ):
            preparing = _Preparing(settings, parts, index, checker, (http, rpc))
            with Client(settings.http_url) as client:
                return [await preparing.prepare(client, asked) for asked in questions]


@dataclass(frozen=True, slots=True)
class _Preparing:
    settings: Settings
    parts: Parts
    index: SearchIndex
    checker: PermissionChecker
    recordings: tuple[Recording, Recording]

    async def prepare(self, client: Client, asked: Asked) -> Prepared:
        principal = Principal(self.settings.tenant_id, asked.person)
        headers = authorization(self.settings, principal)
        body = json.dumps({"query": asked.text}).encode()
        found = client.post(SEARCH, body, headers).document()
        permitted = await permit(Run(), self.parts.catalog, principal)
        query = await self._query(permitted, Question(asked.text))
        document_ids = tuple(dict.fromkeys(hit["document_id"] for hit in found["hits"]))
        await self.checker.allowed(principal, document_ids, permitted.token)
        http, rpc = self.recordings
        return Prepared(
            asked,
            permitted,
            headers,
            query,
            document_ids,
            http.take(_HYBRID),
            rpc.take(_CHECK),
            found["support"]["is_sufficient"],
        )

    async def _query(self, permitted: Permit, question: Question) -> IndexQuery:
        """Let the query path itself make the query of a question."""
        parts, catching = self.parts, _Catching(self.index)
        lanes = await parts.understanding.understand(question)
        embedded = await embed(Run(), parts.embedder, question)
        probe = encode(Run(), parts.lexical, question, lanes, embedded)
        fusion = Fusion.of(lanes, parts.plan, question.depth)
        await search_lanes(Run(), catching, permitted, probe, question.filters, fusion)
        assert catching.query is not None  # it has just been asked
        return catching.query


def authorization(settings: Settings, principal: Principal) -> dict[str, str]:
    """Make the header of somebody who asks."""
    return {"authorization": f"Bearer {sign(principal, local_private_key(settings), _TOKEN_TTL_S)}"}


class Sampler:
    """Times one question in every way that is compared."""

    def __init__(self, settings: Settings, parts: Parts, channel: Any) -> None:
        self._settings = settings
        self._parts = parts
        self._channel = channel
        self._cortex = Client(settings.http_url)
        self._index = Client(settings.qdrant_url)

    async def sample(self, prepared: Prepared, turn: int) -> Timed:
        """Time it; `turn` says what goes first."""
        ways = (self._http, self._raw, self._plain, self._empty)
        took: dict[str, Any] = {}
        for number in range(len(ways)):
            took |= await ways[(number + turn) % len(ways)](prepared)
        return Timed(**took)

    async def _http(self, prepared: Prepared) -> dict[str, Any]:
        reply = self._cortex.post(SEARCH, prepared.body, prepared.headers)
        return {"http": reply.took_ms, **told(prepared, reply)}

    async def _empty(self, _: Prepared) -> dict[str, Any]:
        return {"empty": self._cortex.get(EMPTY).took_ms}

    async def _raw(self, prepared: Prepared) -> dict[str, Any]:
        parts, principal = self._parts, prepared.permit.principal
        _, embed = await timed(lambda: parts.embedder.embed_queries([prepared.asked.text]))
        _, hybrid = await timed(lambda: parts.index.search(prepared.query))
        _, check = await timed(
            lambda: parts.checker.allowed(principal, prepared.document_ids, prepared.permit.token)
        )
        return {"embed": embed, "hybrid": hybrid, "check": check}

    async def _plain(self, prepared: Prepared) -> dict[str, Any]:
        hybrids = [self._hybrid_plainly(sent) for sent in prepared.hybrid_sent]
        checks = [await self._check_plainly(sent) for sent in prepared.check_sent]
        return {
            "plain_hybrid": sum(took for took, _ in hybrids),
            "engine": sum(engine for _, engine in hybrids),
            "plain_check": sum(checks),
        }

    def _hybrid_plainly(self, sent: Sent) -> tuple[float, float]:
        """Send what the adapter sent, and read the answer as JSON: unread, it would be of no use."""
        started = time.perf_counter()
        key = {"api-key": self._settings.qdrant_api_key.get_secret_value()}
        answer = self._index.post(sent.path, sent.body, key).document()
        return (time.perf_counter() - started) * 1000, answer["time"] * 1000

    async def _check_plainly(self, sent: Sent) -> float:
        """Send what the adapter sent, and read the answer as a message: unread, it would be of no use."""
        call = self._channel.unary_unary(sent.path, response_deserializer=read_answer)
        key = (("authorization", f"Bearer {self._settings.spicedb_token.get_secret_value()}"),)
        return (await timed(lambda: call(sent.body, metadata=key)))[1]

    def close(self) -> None:
        """Close the connections."""
        self._cortex.close()
        self._index.close()


def told(prepared: Prepared, reply: Reply) -> dict[str, Any]:
    """Read from a search's reply what its steps took and whether the note that answers is among the first hits."""
    document = reply.document()
    first = [hit["title"] for hit in document["hits"][:_N_FIRST]]
    return {"stages": document["timings_ms"], "is_found": prepared.asked.title in first}


async def timed(call: Callable[[], Awaitable[Any]]) -> tuple[Any, float]:
    """Await a call; returns its result and its milliseconds."""
    started = time.perf_counter()
    result = await call()
    return result, (time.perf_counter() - started) * 1000


@asynccontextmanager
async def open_sampler(settings: Settings) -> AsyncIterator[Sampler]:
    """Open the adapters as one process that holds the whole query path does, and plain connections to the engines."""
    async with open_parts(settings) as parts, grpc.aio.insecure_channel(settings.spicedb_url) as channel:
        sampler = Sampler(settings, parts, channel)
        try:
            yield sampler
        finally:
            sampler.close()
