"""Embed: the dense and sparse vectors of each chunk.

Reads: chunks. Writes: vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from cortex.chunks import Chunk, ChunkVectors
from cortex.errors import Corrupt
from cortex.ports.models import Embedder, LexicalEncoder


class EmbedStage:
    """Embeds batches of chunks; the more at once, the less is padded."""

    def __init__(self, embedder: Embedder, lexical: LexicalEncoder) -> None:
        self._embedder = embedder
        self._lexical = lexical

    def __call__(self, chunks: Sequence[Chunk]) -> list[ChunkVectors]:
        """Return the vectors of chunks, in their order: dense float32[d] unit rows, sparse BM25 weights."""
        texts = [chunk.embed_text for chunk in chunks]
        dense = self._embedder.embed_documents(texts)
        if dense.shape != (len(texts), self._embedder.dimension):
            raise Corrupt(f"the embedder gave {dense.shape} for {len(texts)} texts", code="model.corrupt")
        return [
            ChunkVectors(row.copy(), self._lexical.encode_document(text))
            for row, text in zip(dense, texts, strict=True)
        ]
