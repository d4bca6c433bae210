"""Group: a signature by which near-duplicates are found. Equal bodies have equal signatures.

Reads: parsed. Writes: signature.

MinHash (Broder 1997) of 64 hashes over shingles of five words; a Chinese, Japanese or Korean character counts as a
word. The hashes are multiply-shift (Dietzfelbinger 1996), the same on every machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

N_HASHES = 64
_SHINGLE = 5
_BATCH = 8_192  # shingles hashed at once: 4 MB
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+")


def signature(text: str) -> bytes:
    """Return the MinHash of a text as uint32[64], little-endian; empty for a text without words."""
    least = np.full(N_HASHES, np.iinfo(np.uint64).max, np.uint64)
    is_empty = True
    for hashes in _batches(text):
        is_empty = False
        values = (hashes[:, None] * _FACTORS + _OFFSETS) >> np.uint64(32)
        least = np.minimum(least, values.min(axis=0))
    return b"" if is_empty else least.astype("<u4").tobytes()


def _batches(text: str) -> Iterator[NDArray[np.uint64]]:
    words = _WORD.findall(text.casefold())
    starts = range(max(len(words) - _SHINGLE + 1, 1)) if words else range(0)
    for first in range(0, len(starts), _BATCH):
        shingles = {" ".join(words[at : at + _SHINGLE]) for at in starts[first : first + _BATCH]}
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=4).digest() for text in shingles)
        yield np.frombuffer(digests, "<u4").astype(np.uint64)


def _constants(name: str) -> NDArray[np.uint64]:
    """Derive 64 fixed odd numbers of 64 bits."""
    digests = (hashlib.blake2b(f"{name} {n}".encode(), digest_size=8).digest() for n in range(N_HASHES))
    return np.array([int.from_bytes(digest, "little") | 1 for digest in digests], np.uint64)


_FACTORS = _constants("minhash factor")
_OFFSETS = _constants("minhash offset")
