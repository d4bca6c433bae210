"""Progress of commands that count things of several kinds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cortex.console import write_progress

_EVERY_S = 0.5


@contextmanager
def counting(event: str, verb: str, as_json: bool) -> Iterator[Callable[[str, int], None]]:
    """Report on stderr, now and then, how many of what are done: NDJSON events, or one line that changes."""
    told_at = time.monotonic()

    def is_due() -> bool:
        nonlocal told_at
        if time.monotonic() - told_at < _EVERY_S:
            return False
        told_at = time.monotonic()
        return True

    if as_json:
        yield lambda what, n: write_progress(event, what=what, n=n) if is_due() else None
        return
    from rich.console import Console

    with Console(stderr=True).status(verb) as status:
        yield lambda what, n: status.update(f"{verb} {what}: {n:,}") if is_due() else None
