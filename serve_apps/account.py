"""The account of one request: what its log event and its span say at the end. Names, counts, codes and times only."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from cortex.errors import CortexError
from cortex.evidence import Answer, SearchResult


@dataclass(slots=True)
class Account:
    """What whoever works on a request notes; what was not noted is not told."""

    code: str = ""  # of the error that it ended with
    tool: str = ""
    mode: str = ""  # of the answer
    n_hits: int | None = None
    first_token_ms: float | None = None
    degraded: list[str] = field(default_factory=list)
    steps_ms: dict[str, float] = field(default_factory=dict)

    def fail(self, error: CortexError) -> None:
        """Note the error that a request ends with."""
        self.code = error.error_code

    def search(self, result: SearchResult) -> None:
        """Note what a search found, in which time, and what did not work."""
        self.n_hits = len(result.hits)
        self._note(result.timings_ms)
        self.degraded += [f"{each.part}:{each.code}" for each in result.degraded]

    def answer(self, answer: Answer) -> None:
        """Note how an answer came about."""
        self.mode = answer.mode
        self._note(answer.timings_ms)
        self.degraded += [f"{each.part}:{each.code}" for each in answer.degraded]

    def fields(self) -> dict[str, Any]:
        """List what was noted."""
        noted = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in noted.items() if value not in ("", None, [], {})}

    def _note(self, timings_ms: Mapping[str, float]) -> None:
        self.steps_ms |= {name: round(ms, 1) for name, ms in timings_ms.items()}


# Set by the guard. Tasks that a request starts see the same account; work outside of requests gets one that nobody reads.
_OF_REQUEST: ContextVar[Account | None] = ContextVar("account", default=None)


def open_account() -> Account:
    """Begin the account of the request that this task answers."""
    account = Account()
    _OF_REQUEST.set(account)
    return account


def account() -> Account:
    """Return the account of the current request."""
    return _OF_REQUEST.get() or Account()
