"""The desk: takes a question once, finds out who asks and who would read the answer, and answers accordingly.

A question in a channel is first asked for everyone who can read the channel. What comes of that may be posted. If it is
nothing, or it is not certain who reads, the asker alone gets an answer of their own, which nobody else sees. What the
channel sees is therefore a function of what all of its readers may open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slack_sdk.web.async_client import AsyncWebClient

from clients.slack import messages
from clients.slack.asking import Cortex
from clients.slack.deliveries import Deliveries
from clients.slack.messages import Message, answer_message, sentence
from clients.slack.people import People
from clients.slack.questions import Asked, Rated
from clients.slack.readers import Readers
from clients.slack.replies import CommandReply, Reply, ThreadReply
from clients.slack.web import FAILURES
from cortex.errors import CortexError, Forbidden, Misconfigured, NotFound, TooLarge
from cortex.telemetry import event

_SEATS = 8
_MOST_WAITING = 100
_UNKNOWN = frozenset({"user.unknown", "user.removed", "token.revoked"})
_NOT_FOR_ALL = frozenset({"audience.unknown", "audience.too_large"})


@dataclass(frozen=True, slots=True)
class Workspace:
    """The parts that a desk works with."""

    client: AsyncWebClient
    cortex: Cortex
    people: People
    readers: Readers
    deliveries: Deliveries


class Desk:
    """Answers the questions of one workspace, some of them at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._client = workspace.client
        self._cortex = workspace.cortex
        self._people = workspace.people
        self._readers = workspace.readers
        self._deliveries = workspace.deliveries
        self._seats = asyncio.Semaphore(_SEATS)
        self._n_present = 0

    async def on_message(self, asked: Asked | None) -> None:
        """Answer a mention or direct message in its thread."""
        if asked is None or not self._deliveries.take(asked.key):
            return
        reply = ThreadReply(self._client, asked)
        await self._attend(reply, lambda: self._answer(asked, reply, None if asked.is_direct else reply))

    async def on_command(self, asked: Asked | None) -> None:
        """Answer a slash command: to whoever typed it alone, because nobody else saw the question."""
        if asked is None or not self._deliveries.take(asked.key):
            return
        reply = CommandReply(asked.response_url)
        await self._attend(reply, lambda: self._answer(asked, reply, None))

    async def on_thumb(self, rated: Rated | None) -> None:
        """Give the thumb to Cortex as whoever pressed it, who must be whoever asked."""
        if rated is None or not self._deliveries.take(rated.key):
            return
        reply = CommandReply(rated.response_url, rated.thread_ts)
        await self._attend(reply, lambda: self._rate(rated, reply))

    async def drain(self, timeout_s: float) -> None:
        """Wait, for so long at most, until everybody has been answered."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._n_present:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            event("slack.interrupt", n_questions=self._n_present)

    async def _attend(self, reply: Reply, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work when a seat is free; say so when too many wait already. A reply that gets lost is logged."""
        self._n_present += 1
        try:
            if self._n_present > _SEATS + _MOST_WAITING:
                await reply.quietly(sentence(messages.BUSY))
                return
            async with self._seats:
                await work()
        except (*FAILURES, Misconfigured) as error:
            event("slack.reply_lost", level=logging.ERROR, error=type(error).__name__)
        finally:
            self._n_present -= 1

    async def _answer(self, asked: Asked, quiet: Reply, thread: ThreadReply | None) -> None:
        """Answer one question; `thread` is where everyone reads it, None where nobody else may."""
        try:
            account = await self._people.asker(asked.slack_id)
        except FAILURES as error:
            event("slack.asker_unknown", level=logging.ERROR, error=type(error).__name__)
            await quiet.quietly(sentence(messages.UNAVAILABLE))
            return
        if account.is_app:
            return
        if not account.email:
            await quiet.quietly(sentence(messages.NOTHING))
            return
        try:
            shared = await self._for_all(asked, account.email) if thread and asked.text else None
            message = shared or await self._for_one(asked, account.email)
        except CortexError as error:
            await quiet.quietly(sentence(_words(error)))
            return
        if shared and thread:
            await thread.openly(shared)
        else:
            await quiet.quietly(message)

    async def _for_all(self, asked: Asked, person: str) -> Message | None:
        """Answer for everyone who can read the channel; None when it is not certain who can, or nothing answers."""
        readers = await self._readers.of(asked.channel_id)
        if readers is None or person not in readers:
            return None
        try:
            answer = await self._cortex.answer(person, asked.text, readers)
        except (Forbidden, TooLarge) as error:
            if error.error_code in _NOT_FOR_ALL:
                return None
            raise
        if answer.abstained:
            return None
        now = await self._readers.of(asked.channel_id)  # somebody may have come while the answer was written
        if now is None or not now <= readers:
            return None
        event("slack.answer", is_open=True, n_readers=len(readers), trace_id=answer.trace_id)
        return answer_message(answer, messages.FOR_ALL)

    async def _for_one(self, asked: Asked, person: str) -> Message:
        """Answer for the asker alone."""
        if not asked.text:
            return sentence(messages.HELP)
        answer = await self._cortex.answer(person, asked.text)
        event("slack.answer", is_open=False, is_abstained=answer.abstained, trace_id=answer.trace_id)
        is_in_channel = bool(asked.thread_ts) and not asked.is_direct
        return answer_message(answer, messages.FOR_YOU if is_in_channel else "")

    async def _rate(self, rated: Rated, reply: Reply) -> None:
        await reply.quietly(sentence(await self._said_to(rated)))

    async def _said_to(self, rated: Rated) -> str:
        """Record a thumb; returns what to say."""
        try:
            account = await self._people.asker(rated.slack_id)
            if not account.email:
                return messages.NOTHING
            await self._cortex.rate(account.email, rated.answer_id, is_helpful=rated.is_helpful)
        except NotFound:
            return messages.NOT_YOURS
        except CortexError as error:
            return _words(error)
        except FAILURES as error:
            event("slack.asker_unknown", level=logging.ERROR, error=type(error).__name__)
            return messages.UNAVAILABLE
        return messages.THANKS


def _words(error: CortexError) -> str:
    """Say an error to whoever asked. Who is not known here learns no more than who cannot be known at all."""
    if error.error_code in _UNKNOWN:
        return messages.NOTHING
    if error.error_code == "query.too_large":
        return messages.TOO_LONG
    if error.error_code == "question.unsearchable":
        return messages.UNSEARCHABLE
    event("slack.fail", level=logging.ERROR, code=error.error_code)
    return messages.UNAVAILABLE
