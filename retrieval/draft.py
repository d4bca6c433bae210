"""Draft: an answer being written; every piece becomes one event, and the last event holds the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cortex.evidence import Answer, AnswerEvent, AnswerEventKind, Citation, Fragment
from retrieval.follow_up import follow_ups
from retrieval.run import Run
from retrieval.sentences import sentences

_MARKS = re.compile(r"\[\d+\]")
ABSTENTION = "I found nothing in the documents you can open that answers this."


class Draft:
    """Collects what an answer has said and cited so far."""

    def __init__(self, run: Run, question: str, fragments: Sequence[Fragment]) -> None:
        self._run = run
        self.question = question
        self.is_done = False
        self._fragments = fragments
        self._n_noted = len(run.degraded)  # what the search noted is told with the search
        self._text: list[str] = []
        self._citations: dict[tuple[int, str], Citation] = {}

    @property
    def text(self) -> str:
        """What has been said."""
        return "".join(self._text)

    @property
    def claim(self) -> str:
        """The last sentence said, without citation marks."""
        said = sentences(_MARKS.sub("", self.text))
        return said[-1] if said else ""

    def say(self, text: str) -> AnswerEvent:
        """Add a piece of text."""
        self._text.append(text)
        return AnswerEvent(AnswerEventKind.TOKEN, token=text)

    def cite(self, citation: Citation) -> AnswerEvent:
        """Add a citation; the same words cited again count once."""
        self._citations[citation.number, citation.quote] = citation
        return AnswerEvent(AnswerEventKind.CITATION, citation=citation)

    def abstain(self, model: str = "") -> list[AnswerEvent]:
        """Say that nothing answers the question, and close."""
        return [self.say(ABSTENTION), self.done("abstained", model)]

    def done(self, mode: str, model: str = "") -> AnswerEvent:
        """Close the answer."""
        self.is_done = True
        cited = frozenset(number for number, _ in self._citations)
        answer = Answer(
            text=self.text.strip(),
            citations=tuple(self._citations.values()),
            is_abstained=mode == "abstained",
            mode=mode,
            model=model,
            follow_ups=() if mode == "abstained" else follow_ups(self.question, self._fragments, cited),
            degraded=tuple(self._run.degraded[self._n_noted :]),
            timings_ms=self._run.timings(),
        )
        return AnswerEvent(AnswerEventKind.DONE, answer=answer)
