"""Many answers that stream at once, each held against the words that the model said to it: no token may be lost."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from cortex.settings import Settings
from eval.first_token import ANSWER
from eval.raw_parts import Prepared
from eval.upstream import Control, Pace, words

BEGINNING = 8  # that many wait for their evidence at once; the others stream already, or have not asked
_PAUSE_S = 0.2
_STARTS_PER_S = 8.0  # at least so many streams begin a second, on two cores
_SPARE_S = 5.0
_TIMEOUT = httpx.Timeout(180.0)
_SERIAL = re.compile(r"\bs(\d+)w1\b")

Event = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Heard:
    """What came of one stream: its tokens put together, the answer at its end, and what went wrong, if anything."""

    text: str = ""
    answer: str = ""
    failure: str = ""

    def take(self, name: str, data: dict[str, Any]) -> None:
        """Take one event."""
        match name:
            case "token":
                self.text += data["text"]
            case "done":
                self.answer = data["answer"]
            case "error":
                self.failure = data["code"]

    @property
    def serial(self) -> int:
        """The model's number of this stream; 0 when no word named it."""
        found = _SERIAL.search(self.text)
        return int(found.group(1)) if found else 0

    def n_lost(self, n_words: int) -> int:
        """Count the words that the model said to this stream and that did not arrive."""
        missing = Counter("".join(words(self.serial, n_words)).split()) - Counter(self.text.split())
        return missing.total()

    def is_whole(self, n_words: int) -> bool:
        """Say whether every word arrived once, in order, and the answer at the end is the same."""
        said = "".join(words(self.serial, n_words)).strip()
        return not self.failure and self.serial > 0 and self.text.strip() == self.answer == said


def stream_all(
    settings: Settings, upstream: Control, questions: Sequence[Prepared], n: int
) -> dict[str, Any]:
    """Stream `n` answers, all open at once before the first ends."""
    pace = pace_for(n)
    upstream.set_pace(pace)
    before = upstream.counts()
    started = time.monotonic()
    heard = asyncio.run(_stream_all(settings.http_url, questions, n))
    seconds, after = time.monotonic() - started, upstream.counts()
    return {
        **heard_document(heard, pace.n_words),
        "most_at_once": after.most_open,
        "n_begun_at_model": after.n_begun - before.n_begun,
        "words_per_s": round(n * pace.n_words / seconds, 1),
        "seconds": round(seconds, 1),
    }


def heard_document(heard: Sequence[Heard], n_words: int) -> dict[str, Any]:
    """State how many streams were whole, and what the others lack."""
    return {
        "n": len(heard),
        "n_words_each": n_words,
        "n_whole": sum(one.is_whole(n_words) for one in heard),
        "n_tokens_lost": sum(one.n_lost(n_words) for one in heard),
        "n_mixed_up": len(heard) - len({one.serial for one in heard}),
        "failures": dict(Counter(one.failure for one in heard if one.failure)),
    }


def pace_for(n: int) -> Pace:
    """Make streams so long that the first still speaks when the last has begun."""
    return Pace(first_s=0.02, pause_s=_PAUSE_S, n_words=round((n / _STARTS_PER_S + _SPARE_S) / _PAUSE_S))


def open_client(url: str) -> httpx.AsyncClient:
    """Make a client that opens a connection for each call, and closes it when the call is left."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=url, timeout=_TIMEOUT, limits=limits, trust_env=False)


async def _stream_all(url: str, questions: Sequence[Prepared], n: int) -> list[Heard]:
    beginning = asyncio.Semaphore(BEGINNING)
    async with open_client(url) as client:
        listening = (_listen(client, questions[number % len(questions)], beginning) for number in range(n))
        return await asyncio.gather(*listening)


async def _listen(client: httpx.AsyncClient, prepared: Prepared, beginning: asyncio.Semaphore) -> Heard:
    heard, is_beginning = Heard(), True
    await beginning.acquire()
    try:
        async for name, data in _events(client, prepared):
            if is_beginning:  # evidence is here: somebody else may begin
                beginning.release()
                is_beginning = False
            heard.take(name, data)
    except httpx.HTTPError as error:
        heard.failure = type(error).__name__
    finally:
        if is_beginning:
            beginning.release()
    if not heard.answer and not heard.failure:
        heard.failure = "ended early"
    return heard


async def _events(client: httpx.AsyncClient, prepared: Prepared) -> AsyncIterator[Event]:
    """Ask for a stream and yield its events; raises httpx.HTTPStatusError when it is refused."""
    body = {"query": prepared.asked.text, "stream": True}
    async with client.stream("POST", ANSWER, json=body, headers=prepared.headers) as response:
        response.raise_for_status()
        name = ""
        async for line in response.aiter_lines():
            word, _, value = line.partition(": ")
            if word == "event":
                name = value
            elif word == "data":
                yield name, json.loads(value)
