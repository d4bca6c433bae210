"""Sets of millions in little memory, and hashes of content that do not depend on order."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from hashlib import blake2b, sha256

import numpy as np
from numpy.typing import NDArray

# A new key each run: nobody can prepare two tuples that look the same here.
_KEY = os.urandom(16)
_MODULUS = 2**256


def digest(*parts: str) -> int:
    """Hash a tuple of texts to 64 bits; different ones are alike once in 10^7 runs over a million."""
    joined = "\x00".join(parts).encode()
    return int.from_bytes(blake2b(joined, digest_size=8, key=_KEY).digest(), "big")


def digest_set(digests: Iterable[int]) -> NDArray[np.uint64]:
    """Collect digests: uint64[n], ascending and distinct, 8 bytes each."""
    return np.unique(np.frombuffer(array("Q", digests), dtype=np.uint64))


def only_in(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return what the first set has and the second lacks."""
    return np.setdiff1d(one, other, assume_unique=True)


class ContentHash:
    """A hash of a multiset: the sum of its members' SHA-256, so that order does not matter and repeats do."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, *parts: str) -> None:
        """Add one member."""
        self.add_bytes("\x00".join(parts).encode())

    def add_bytes(self, member: bytes) -> None:
        """Add one member, given as it is hashed."""
        self._sum = (self._sum + int.from_bytes(sha256(member).digest(), "big")) % _MODULUS

    def hexdigest(self) -> str:
        """Return the hash as 64 hex digits."""
        return f"{self._sum:064x}"
