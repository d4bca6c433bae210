"""Read: an item's bytes, whole and from one moment, with their hash.

Reads: item. Writes: content, content_sha256.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cortex.documents import Item
from cortex.errors import Unparsable


def read(item: Item, max_bytes: int) -> bytes:
    """Return an item's content; raises Unparsable when it cannot be read, is too large, or changes meanwhile."""
    if item.content is not None:
        return item.content
    assert item.path is not None  # an item has one of the two
    try:
        handle = os.open(Path(item.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Unparsable("it vanished before it was read", code="file.vanished") from error
    except OSError as error:
        raise Unparsable(f"it cannot be opened: {error.strerror}", code="file.unreadable") from error
    try:
        return _read_whole(handle, max_bytes)
    except OSError as error:
        raise Unparsable(f"it cannot be read: {error.strerror}", code="file.unreadable") from error
    finally:
        os.close(handle)


def _read_whole(handle: int, max_bytes: int) -> bytes:
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        raise Unparsable("it is no regular file any more", code="file.changed")
    if before.st_size > max_bytes:
        reason = f"it has {before.st_size:,} bytes; the limit is {max_bytes:,}"
        raise Unparsable(reason, code="document.too_large")
    content = _read_up_to(handle, before.st_size + 1)
    if _state(before) != _state(os.fstat(handle)) or len(content) != before.st_size:
        raise Unparsable("it changed while it was read; the next run takes it", code="file.changed")
    return content


def _read_up_to(handle: int, n_bytes: int) -> bytes:
    content = bytearray()
    while len(content) < n_bytes and (piece := os.read(handle, min(n_bytes - len(content), 1 << 24))):
        content += piece
    return bytes(content)


def _state(state: os.stat_result) -> tuple[int, int, int]:
    return (state.st_size, state.st_mtime_ns, state.st_ctime_ns)
