"""Generate: the answer written by the user's own model, streamed, held to the evidence it was given.

Nothing is shown before the first valid citation: until then it may turn out that the model cites nothing, cites what
was never supplied, or does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from cortex.errors import CortexError, TimedOut
from cortex.evidence import AnswerEvent, Fragment
from cortex.ports.models import Generator
from cortex.telemetry import under
from retrieval.cite import CitationReader, ThoughtFilter, best_quote, cite
from retrieval.draft import Draft
from retrieval.prompt import NO_ANSWER, build_messages
from retrieval.run import Run, lasting


async def generate(
    run: Run, generator: Generator, draft: Draft, fragments: Sequence[Fragment], timeout_s: float
) -> AsyncGenerator[AnswerEvent, None]:
    """Stream a generated answer, or the model's own abstention, to the final event.

    Ends without a final event when the model failed or cited nothing valid; `run.degraded` then says which.
    """
    by_number = {fragment.number: fragment for fragment in fragments}
    messages = build_messages(draft.question, fragments)
    with lasting(run, "generate") as span:
        pieces = under(span, generator.stream(messages))
        async with aclosing(_read(pieces, CitationReader(by_number), timeout_s)) as reading:
            try:
                opening = await _open(reading)
                if _says_no_answer(opening):
                    for event in draft.abstain(generator.model):
                        yield event
                    return
                if not any(isinstance(each, int) for each in opening):
                    run.degrade(
                        "generate", "answer.uncited", "The model cited no evidence; its answer is not shown."
                    )
                    return
                for each in opening:
                    yield _event(draft, by_number, each)
                async for each in reading:
                    yield _event(draft, by_number, each)
            except CortexError as error:
                run.degrade("generate", error.error_code, "The model failed before its answer was complete.")
                return
    yield draft.done("generated", generator.model)


async def _read(
    pieces: AsyncGenerator[str, None], citations: CitationReader, timeout_s: float
) -> AsyncGenerator[str | int, None]:
    """Read the model's stream into text and citation numbers; raises TimedOut after so much silence."""
    thoughts = ThoughtFilter()
    async with aclosing(pieces) as stream:
        while True:
            try:
                async with asyncio.timeout(timeout_s):
                    piece = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise TimedOut("the model fell silent", code="generator.timed_out") from error
            for each in citations.feed(thoughts.feed(piece)):
                yield each


async def _open(reading: AsyncGenerator[str | int, None]) -> list[str | int]:
    """Read up to the first citation, or to the end when there is none."""
    opening: list[str | int] = []
    async for each in reading:
        opening.append(each)
        if isinstance(each, int):
            break
    return opening


def _says_no_answer(opening: Sequence[str | int]) -> bool:
    said = "".join(each for each in opening if isinstance(each, str))
    return said.strip(" \n\"'`*.").startswith(NO_ANSWER)


def _event(draft: Draft, by_number: dict[int, Fragment], each: str | int) -> AnswerEvent:
    if isinstance(each, str):
        return draft.say(each)
    return draft.cite(cite(by_number[each], best_quote(by_number[each], draft.claim)))
