"""Attempts: how often work was begun and not ended, so that what kills its worker is set aside instead of tried for ever.

One file per key, one byte per start. The folder belongs to one run: a killed job or machine says nothing about a document.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cortex.ids import sha256_hex

# The worker of a healthy document may be killed too: by the kernel for memory, or with its node.
DEATHS_UNTIL_POISON = 3
POISON = ("document.poison", f"the worker that had it died {DEATHS_UNTIL_POISON} times")


class Attempts:
    """Counts unfinished starts by key. Several processes may count; each key is one worker's at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reset(self) -> None:
        """Forget everything: a new run begins."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, mode=0o700)

    def begin(self, key: str) -> int:
        """Note a start; returns how many earlier ones never ended."""
        handle = os.open(self._path(key), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, b".")
            return os.fstat(handle).st_size - 1
        finally:
            os.close(handle)

    def end(self, key: str) -> None:
        """Note that it came to an end, good or bad."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / sha256_hex(key.encode())[:32]
