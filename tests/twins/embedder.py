"""A tiny deterministic embedder for unit tests: words hashed into 64 dimensions, so texts that share words are near."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class HashingEmbedder:
    """An Embedder without a model. Passes the contract suite of the real one."""

    version = "hashing-64.1"
    dimension = 64
    is_on_gpu = False

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, 64], unit rows."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in ["", *re.findall(r"\w+", text.casefold())]:
                digest = hashlib.blake2b(word.encode(), digest_size=2).digest()
                rows[row, digest[0] % self.dimension] += 1.0 if digest[1] % 2 else -1.0
            if not rows[row].any():  # signs cancelled out
                rows[row, 0] = 1.0
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit.astype(np.float32)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: as passages."""
        return self.embed_documents(texts)

    def count_tokens(self, text: str) -> int:
        """Count words."""
        return len(re.findall(r"\w+", text))
