"""The user's own model behind the OpenAI chat API, streamed as server-sent events (port Generator over httpx)."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

import httpx
from opentelemetry.trace import SpanKind

from cortex.errors import Misconfigured, TimedOut, Unavailable
from cortex.ports.models import Message
from cortex.settings import Settings
from cortex.tasks import apart
from cortex.telemetry import start_span, under

_CONNECT_TIMEOUT_S = 5.0
_KEPT_CONNECTIONS = 16
_CHARS_PER_TOKEN = 32  # a model that sends more than this many per token of its budget ignores the budget
_REFUSALS = {
    400: "the model server refuses the request: perhaps the evidence exceeds its context window",
    401: "the model server refuses the key",
    403: "the model server refuses the key",
    404: "the model server does not know the model or the path",
    422: "the model server refuses the request",
    429: "the model server is busy",
}


class OpenAIGenerator:
    """A Generator. `url` ends in /v1; `timeout_s` is how long the model may stay silent."""

    def __init__(self, url: str, model: str, *, api_key: str = "", max_tokens: int, timeout_s: float) -> None:
        self.model = model
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._max_tokens = max_tokens
        self._client = httpx.AsyncClient(
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            # How many are asked at once is bounded where questions are let in: here they would wait unseen.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS),
        )

    @classmethod
    def from_settings(cls, settings: Settings) -> OpenAIGenerator:
        """Build the client of `CORTEX_LLM_URL`; raises Misconfigured when no model is named."""
        if not settings.llm_model:
            raise Misconfigured(
                "CORTEX_LLM_URL is set without CORTEX_LLM_MODEL", hint="name the model to ask"
            )
        return cls(
            settings.llm_url,
            settings.llm_model,
            api_key=settings.llm_api_key.get_secret_value(),
            max_tokens=settings.llm_max_tokens,
            timeout_s=settings.llm_timeout_s,
        )

    async def stream(self, messages: Sequence[Message]) -> AsyncGenerator[str, None]:
        """Stream the answer's text pieces; raises Unavailable or TimedOut. Closing the stream cancels the request.

        It reads ahead of who listens, by at most the answer's budget.
        """
        request = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": self._max_tokens,
            "temperature": 0,
            "stream": True,
        }
        asking, asked_s, has_begun = start_span(**self._described()), time.perf_counter(), False
        try:
            async with aclosing(apart(under(asking, self._said(request)))) as pieces:
                async for piece in pieces:
                    if not has_begun:
                        has_begun = True
                        waited_s = time.perf_counter() - asked_s
                        asking.set_attribute("gen_ai.response.time_to_first_chunk", waited_s)
                    yield piece
        finally:
            asking.end()

    async def _said(self, request: dict[str, Any]) -> AsyncGenerator[str, None]:
        left = self._max_tokens * _CHARS_PER_TOKEN
        with _translated():
            async with self._client.stream("POST", self._url, json=request) as response:
                if response.status_code != 200:
                    raise _refused(response.status_code)
                async for piece in _pieces(response.aiter_lines()):
                    left -= len(piece)
                    if left < 0:
                        raise Unavailable("the model ignores its token budget", code="generator.runaway")
                    yield piece

    def _described(self) -> dict[str, Any]:
        """Describe the span of a call (OpenTelemetry's names for generative AI)."""
        attributes: dict[str, str | int | float | bool] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",  # the API that it speaks; who made the model is not known
            "gen_ai.request.model": self.model,
            "gen_ai.request.max_tokens": self._max_tokens,
            "gen_ai.request.temperature": 0.0,
            "gen_ai.request.stream": True,
        }
        return {"name": f"chat {self.model}", "attributes": attributes, "kind": SpanKind.CLIENT}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def _pieces(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Read the text of an event stream up to its end; a stream that breaks off before its end is an error."""
    has_finished = False
    async for line in lines:
        field, _, value = line.partition(":")
        if field != "data":  # a comment, a blank line, or a field that this API does not use
            continue
        value = value.strip()
        if value == "[DONE]":
            return
        piece, is_last = _read_event(value)
        has_finished = has_finished or is_last
        if piece:
            yield piece
    if not has_finished:
        raise Unavailable("the model's answer broke off", code="generator.broken_off")


def _read_event(value: str) -> tuple[str, bool]:
    """Read one event: its text, and whether it is the last with text."""
    try:
        event: Any = json.loads(value)
        if "error" in event:
            raise Unavailable("the model reports an error", code="generator.failed")
        choices = event.get("choices") or [{}]
        content = (choices[0].get("delta") or {}).get("content") or ""
        finish = choices[0].get("finish_reason")
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise Unavailable("the model sends what is no chat stream", code="generator.malformed") from error
    if finish == "content_filter":
        raise Unavailable("the model server withheld the answer", code="generator.withheld")
    if not isinstance(content, str):
        raise Unavailable("the model sends what is no chat stream", code="generator.malformed")
    return content, finish is not None


def _refused(status: int) -> Unavailable:
    message = _REFUSALS.get(status, f"the model server answered {status}")
    hint = (
        "correct CORTEX_LLM_URL, CORTEX_LLM_MODEL or CORTEX_LLM_API_KEY" if status in (401, 403, 404) else ""
    )
    return Unavailable(message, code="generator.refused" if status < 500 else "generator.failed", hint=hint)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimedOut("the model fell silent", code="generator.timed_out") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(
            "the model server does not answer", code="generator.unavailable", hint="check CORTEX_LLM_URL"
        ) from error
