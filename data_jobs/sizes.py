"""What documents take on disk and in memory, as measured; plans multiply these.

Measured with 13,000 chunks of 200 tokens in 2,500 text documents, and 60,000 points more in the index (384 dimensions, 85 distinct
terms a chunk), each beside the same home before. Sources with heavier originals (PDF, slides) take more in objects.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of one part of a home: at least so many, and so many more for each chunk, document and tuple."""

    fixed: int
    per_chunk: int = 0
    per_document: int = 0
    per_tuple: int = 0

    def bytes_of(self, n_chunks: float, n_documents: float, n_tuples: float) -> int:
        """Return the part's bytes in a home of this size."""
        return round(
            self.fixed
            + n_chunks * self.per_chunk
            + n_documents * self.per_document
            + n_tuples * self.per_tuple
        )


# Usual proportions of a folder of documents.
CHUNKS_PER_DOCUMENT = 4.0
TUPLES_PER_DOCUMENT = 1.1

# Disk. Postgres keeps up to 1 GB of write-ahead log; the index keeps its files in pages of 32 MB.
CATALOG = Size(fixed=1_100_000_000, per_chunk=1_300, per_document=3_200)
INDEX = Size(fixed=450_000_000, per_chunk=4_700)
OBJECTS = Size(fixed=0, per_chunk=950, per_document=8_200)  # two folders and a rounded-up file each

# Memory.
INDEX_MEMORY = Size(fixed=180_000_000, per_chunk=4_700)
SPICEDB_MEMORY = Size(fixed=90_000_000, per_tuple=8_200)
CATALOG_MEMORY = Size(fixed=250_000_000)
RAY_MEMORY = Size(fixed=1_300_000_000)  # with one replica of the query path, and its model
