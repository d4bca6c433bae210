"""The catalog as a question reads it: port QueryCatalog. Permission parity stands on `permit` and `hydrate`."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

import psycopg
from opentelemetry.trace import Span, SpanKind
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries
from cortex.documents import Anchor
from cortex.errors import ChecksUnavailable, Forbidden, NotFound, Unauthenticated
from cortex.evidence import Answer, Candidate, Hit, LaneScores, SearchResult
from cortex.principals import Permit, Principal
from cortex.telemetry import span

T = TypeVar("T")

_SQL = {**queries("reading"), "audit": queries("audit")["append"]}

# A question should fail fast when Postgres is gone, and survive the 0.3 s of a restart.
_CONNECT_TIMEOUT_S = 2.0
_POOL_SIZE = 8
# Compiling a query costs more than running these, and rows are found by key, from memory or a flash disk. So the general
# plan is the right one for all values; left alone, Postgres plans anew for the first five, as long as it then runs.
_OPTIONS = (
    "-c statement_timeout=10s -c jit=off -c random_page_cost=1.1 -c plan_cache_mode=force_generic_plan"
    " -c timezone=UTC"
)
# 10,000 people with 1,000 profiles each would be some 300 MB; most have a few dozen.
_PERMITS_KEPT = 10_000
_WRITES_WAIT_S: Final = 2.0
_POLL_S: Final = 0.01
_ANY = 2**62
_PROFILE_AT: Final = 19  # in a row of `hydrate` or `document_chunks`


class PostgresQueryCatalog:
    """Port QueryCatalog over a pool of connections; `open` it in the event loop that uses it."""

    def __init__(self, url: str, writes_wait_s: float = _WRITES_WAIT_S) -> None:
        self._writes_wait_s = writes_wait_s
        self._pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=_POOL_SIZE,
            timeout=_CONNECT_TIMEOUT_S,
            kwargs={"autocommit": True, "options": _OPTIONS, "prepare_threshold": 0},
            open=False,
        )
        self._profile_ids: OrderedDict[tuple[str, str, int], tuple[int, ...]] = OrderedDict()

    async def open(self) -> None:
        """Connect; a catalog that is not up yet is retried in the background."""
        await self._pool.open()

    async def close(self) -> None:
        """Give the connections back."""
        await self._pool.close()

    async def permit(self, principal: Principal) -> Permit:
        """Expand a principal to its access profiles at the newest access revision.

        Raises Forbidden(code="user.unknown") for who is not registered in the tenant, Unauthenticated for who was
        removed. State and revision are read every time, so that a change is seen by the very next request; only the
        walk is cached. With readers, what remains is what each of them has too.
        """
        permit, _ = await self._permit(principal)
        return permit

    async def fresh_permit(self, principal: Principal) -> Permit:
        """Expand a principal to its permit, bound to the token of the newest permission write.

        The state of the person, the token and the changes that wait are one statement's, so as of one moment after the
        call. Only where changes wait is the token asked for again, until all that waited then are in it.
        """
        permit, waiting = await self._permit(principal)
        if waiting is None and permit.token:
            return permit
        return replace(permit, token=await self._token(_ANY if waiting is None else waiting))

    async def hydrate(self, candidates: Sequence[Candidate], permit: Permit) -> list[Hit]:
        """Load the candidates that are shown, not deleted and within the permit, in the candidates' order."""
        if not candidates or not permit.profile_ids:
            return []
        values = {
            "chunk_ids": [candidate.chunk_id for candidate in candidates],
            "tenant_id": permit.principal.tenant_id,
        }
        rows = await self._rows("hydrate", values)
        asked = [(row, candidates[row[0] - 1]) for row in _within(permit, rows)]
        return [_hit(row, candidate.score, candidate.lanes) for row, candidate in asked]

    async def document_hits(self, document_id: str, permit: Permit) -> list[Hit]:
        """Load all chunks of one visible document in order; empty when unknown or not visible."""
        if "\x00" in document_id or not permit.profile_ids:
            return []
        values = {"document_id": document_id, "tenant_id": permit.principal.tenant_id}
        rows = await self._rows("document_chunks", values)
        return [_hit(row, 0.0, LaneScores()) for row in _within(permit, rows)]

    async def permission_token(self) -> str:
        """Return the newest token that SpiceDB acknowledged, once the changes queued by now are in it.

        Waits (2 s by default), then raises ChecksUnavailable: a recheck that might miss a revocation shows nothing.
        """
        return await self._token(_ANY)

    async def record_answer(
        self, principal: Principal, question: str, result: SearchResult, answer: Answer
    ) -> str:
        """Store an answer with its citations for audit and feedback; returns the answer id."""
        who = {"tenant_id": principal.tenant_id, "user_id": principal.user_id}
        values = who | {
            "question": _storable(question),
            "text": _storable(answer.text),
            "mode": answer.mode,
            "model": answer.model,
            "is_abstained": answer.is_abstained,
            "trace_id": result.trace_id,
        }
        async with self._writing("record_answer") as connection, connection.transaction():
            row = await (await connection.execute(_SQL["record_answer"], values)).fetchone()
            assert row is not None  # INSERT … RETURNING
            cited = [
                {
                    **who,
                    "answer_id": row[0],
                    "number": citation.number,
                    "fragment_id": citation.fragment_id,
                    "document_id": citation.document_id,
                    "quote": _storable(citation.quote),
                }
                for citation in answer.citations
            ]
            await connection.cursor().executemany(_SQL["record_citation"], cited)
        return str(row[0])

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        """Store a thumb; only the asker's own answer, else NotFound."""
        values = {
            "tenant_id": principal.tenant_id,
            "user_id": principal.user_id,
            "answer_id": _storable(answer_id),
            "is_helpful": is_helpful,
            "comment": _storable(comment),
        }
        async with self._writing("record_feedback") as connection:
            if (await connection.execute(_SQL["record_feedback"], values)).rowcount == 0:
                raise NotFound("there is no such answer", code="answer.unknown")

    async def audit(self, principal: Principal, action: str, fields: Mapping[str, Any]) -> None:
        """Append one audit row."""
        values = {
            "tenant_id": principal.tenant_id,
            "user_id": _storable(principal.user_id),
            "action": action,
            "fields": Jsonb({name: _storable(v) if isinstance(v, str) else v for name, v in fields.items()}),
        }
        async with self._writing("audit") as connection:
            await connection.execute(_SQL["audit"], values)

    async def ping(self) -> None:
        """Raise Unavailable unless the catalog answers."""
        await self._rows("ping", {})

    async def _permit(self, principal: Principal) -> tuple[Permit, int | None]:
        """Expand a principal, on one connection; also says up to which queued event checks must still wait."""
        person, *readers = principal.audience

        async def ask(connection: psycopg.AsyncConnection) -> tuple[Permit, int | None]:
            permit, waiting = await self._expand(connection, person)
            for reader in readers:
                try:
                    theirs = frozenset((await self._expand(connection, reader))[0].profile_ids)
                except (Forbidden, Unauthenticated) as error:
                    raise Forbidden(
                        "not everyone who would read this is known here", code="audience.unknown"
                    ) from error
                shared = tuple(each for each in permit.profile_ids if each in theirs)
                permit = replace(permit, profile_ids=shared)
            return replace(permit, principal=principal), waiting

        with _asking("permit"):
            return await self._read(ask)

    async def _expand(
        self, connection: psycopg.AsyncConnection, person: Principal
    ) -> tuple[Permit, int | None]:
        """Expand one person, whoever reads along; also says up to which queued event checks must still wait."""
        values = {"tenant_id": _storable(person.tenant_id), "user_id": _storable(person.user_id)}
        state = await (await connection.execute(_SQL["access_state"], values)).fetchone()
        if state is None:
            raise Forbidden("this account has no access here", code="user.unknown")
        revision, token, is_removed, readmitted_s, waiting = state
        _refuse_removed(is_removed, person.issued_at_s < readmitted_s)
        key = (person.tenant_id, person.user_id, revision)
        profile_ids = self._profile_ids.get(key)
        if profile_ids is None:
            rows = await connection.execute(_SQL["permitted_profiles"], values)
            profile_ids = tuple((await rows.fetchone() or ((),))[0])
        self._keep(key, profile_ids)
        return Permit(person, profile_ids, revision, token), waiting

    async def _token(self, up_to: int) -> str:
        """Wait until all queued changes up to an event are applied, of which those that wait now are the last."""
        deadline = time.monotonic() + self._writes_wait_s
        with _asking("permission_gate"):
            while True:
                waiting, token = await self._gate(up_to)
                if waiting is None and token:
                    return token
                if time.monotonic() > deadline:
                    raise ChecksUnavailable(
                        "permission changes wait to be applied, so nothing can be shown", hint="cortex status"
                    )
                up_to = min(up_to, _ANY if waiting is None else waiting)
                await asyncio.sleep(_POLL_S)

    async def _gate(self, up_to: int) -> tuple[int | None, str]:
        async def ask(connection: psycopg.AsyncConnection) -> tuple[Any, ...] | None:
            return await (await connection.execute(_SQL["permission_gate"], {"up_to": up_to})).fetchone()

        return await self._read(ask) or (None, "")

    def _keep(self, key: tuple[str, str, int], profile_ids: tuple[int, ...]) -> None:
        """Remember a walk as the newest of at most `_PERMITS_KEPT`."""
        self._profile_ids[key] = profile_ids
        self._profile_ids.move_to_end(key)
        if len(self._profile_ids) > _PERMITS_KEPT:
            self._profile_ids.popitem(last=False)

    async def _rows(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Read all rows of a query of our own name; its span holds the wait for a connection."""

        async def ask(connection: psycopg.AsyncConnection) -> list[tuple[Any, ...]]:
            return await (await connection.execute(_SQL[query], values, binary=True)).fetchall()

        with _asking(query):
            return await self._read(ask)

    async def _read(self, ask: Callable[[psycopg.AsyncConnection], Awaitable[T]]) -> T:
        """Ask on a connection, and once more on another if that was lost; so it may only read.

        To try each connection beforehand would double the round trips of a question.
        """
        with translated():
            async with self._pool.connection() as connection:
                try:
                    return await ask(connection)
                except psycopg.OperationalError:
                    if not connection.closed:
                        raise
            await self._renew()
            async with self._pool.connection() as connection:
                return await ask(connection)

    @asynccontextmanager
    async def _writing(self, query: str) -> AsyncIterator[psycopg.AsyncConnection]:
        """Lend a connection that has just answered: a write that was lost may be applied, so it is sent once."""
        with _asking(query), translated():
            async with AsyncExitStack() as held:
                connection = await held.enter_async_context(self._pool.connection())
                if not await _answers(connection):
                    await held.aclose()
                    await self._renew()
                    connection = await held.enter_async_context(self._pool.connection())
                yield connection

    async def _renew(self) -> None:
        """Have the pool replace its dead connections: where one is, Postgres was restarted, and all that idled are dead.

        In a task: the pool takes a cancellation for a sign that the connection in its hand is dead, and goes on.
        """
        await asyncio.wait([asyncio.create_task(self._pool.check())], timeout=_CONNECT_TIMEOUT_S)


async def _answers(connection: psycopg.AsyncConnection) -> bool:
    try:
        await connection.execute("", prepare=False)
    except psycopg.OperationalError:
        return False
    return True


def _asking(query: str) -> AbstractContextManager[Span]:
    """Open the span of a query, which tells its name and never its text."""
    described = {"db.system.name": "postgresql", "db.query.summary": query}
    return span(f"postgresql {query}", described, kind=SpanKind.CLIENT)


def _refuse_removed(is_removed: bool, is_older: bool) -> None:
    """Refuse who was removed, and after a return the tokens from before it: the name may be another person's now."""
    if is_removed:
        raise Unauthenticated("this account was removed", code="user.removed", hint="ask the operator")
    if is_older:
        raise Unauthenticated(
            "this token is from before the account was removed", code="token.revoked", hint="sign in again"
        )


def _within(permit: Permit, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Keep the rows whose profile the permit holds. Compared here: sending 4,500 ids along took 25 ms of processor."""
    profile_ids = frozenset(permit.profile_ids)
    return [row for row in rows if row[_PROFILE_AT] in profile_ids]


def _storable(text: str) -> str:
    """Replace what Postgres cannot store (NUL and lone surrogates)."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _hit(row: tuple[Any, ...], score: float, lanes: LaneScores) -> Hit:
    """Make a hit of a row of `hydrate` or `document_chunks`."""
    (_, chunk_id, document_id, source_id, source_type, collection, title, text, heading_path) = row[:9]
    (kind, start, end, label, permalink, ordinal, byte_start, byte_end) = row[9:17]
    (group_id, content_sha256, profile_id, author, updated_at) = row[17:]
    # By place: by name it takes two fifths longer, and a question loads some 170 of them.
    return Hit(
        chunk_id, document_id, source_id, source_type, collection, title, text, tuple(heading_path),
        Anchor(kind, start, end, label), permalink, score, lanes, ordinal, byte_start, byte_end, group_id,
        content_sha256, profile_id, author, updated_at,
    )  # fmt: skip
