"""Patience and isolation: an engine that restarts does not fail a document, and a bad document fails alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from cortex.errors import CortexError, Remedy
from cortex.telemetry import event
from data_jobs.rows import Row

T = TypeVar("T")

# An embedded engine is back within seconds; after a minute the operator has to look.
PATIENCE_S = 60.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_PASSING = (Remedy.RETRY, Remedy.RETRY_AFTER)


def patiently(action: Callable[[], T]) -> T:
    """Repeat an action that may be repeated while an engine does not answer; after a minute its error is raised."""
    deadline = time.monotonic() + PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return action()
        except CortexError as error:
            if not _passes(error) or time.monotonic() + pause_s > deadline:
                raise
            event("engine.awaited", code=error.error_code, pause_s=pause_s)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def in_isolation(action: Callable[[list[Row]], list[Row]], rows: Sequence[Row]) -> list[Row]:
    """Do something to a batch of documents; where that fails, to one after the other, so that the bad one fails alone.

    Raises what is no document's fault: an engine that stays away, settings that cannot work.
    """
    try:
        return patiently(lambda: action(list(rows)))
    except Exception as error:
        if isinstance(error, CortexError) and not _is_fault_of_document(error):
            raise
        if len(rows) > 1:
            return [done for row in rows for done in in_isolation(action, [row])]
        return [row.failed(*_reason(error)) for row in rows]


def _passes(error: CortexError) -> bool:
    return error.remedy in _PASSING or error.error_code == "catalog.busy"


def _is_fault_of_document(error: CortexError) -> bool:
    return error.remedy in (Remedy.SKIP, Remedy.TELL_USER) or error.error_code.startswith("document.")


def _reason(error: Exception) -> tuple[str, str]:
    if isinstance(error, CortexError):
        return error.error_code, error.message
    event("document.broke", error=type(error).__name__)
    return "document.unexpected", f"it broke a stage: {type(error).__name__}"
