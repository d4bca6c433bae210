"""Deliveries: which of Slack's were taken, in a file, so that neither a retry nor a restart answers twice.

Slack sends an event again after a minute and after five when it got no answer in time, and one message may come as two
events. What is taken counts as answered: a bot that is killed in between stays silent rather than speak twice.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from cortex.errors import Misconfigured

_KEPT_S = 86_400.0
_PRUNE_EVERY = 1_000


class Deliveries:
    """Keys of deliveries, each taken once within a day; one program at a time writes the file."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._file = sqlite3.connect(path, isolation_level=None, timeout=5.0)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.execute("CREATE TABLE IF NOT EXISTS taken (key TEXT PRIMARY KEY, at REAL NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            raise Misconfigured(
                f"the record of answered messages cannot be kept in {path.parent}", code="slack.record"
            ) from error
        self._n_taken = 0

    def take(self, key: str) -> bool:
        """Take a delivery; False when it was taken before."""
        if self._n_taken % _PRUNE_EVERY == 0:
            self._file.execute("DELETE FROM taken WHERE at < ?", (time.time() - _KEPT_S,))
        self._n_taken += 1
        done = self._file.execute("INSERT OR IGNORE INTO taken VALUES (?, ?)", (key, time.time()))
        return done.rowcount == 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()
