"""Plans of disk and memory."""

from adapters.catalog.census import Census
from data_jobs import sizes
from data_jobs.plan import STEPS, plan


def test_an_empty_home_is_planned_with_usual_proportions() -> None:
    """Each part grows with its own measure: chunks, documents or tuples, from what it takes when empty."""
    made = plan(Census(), parser_bytes=7)
    parts = {part.name: part.step_bytes for part in made.parts}
    documents = [n / sizes.CHUNKS_PER_DOCUMENT for n in STEPS]
    assert made.steps == STEPS
    assert parts["catalog"] == tuple(
        round(sizes.CATALOG.fixed + n * sizes.CATALOG.per_chunk + d * sizes.CATALOG.per_document)
        for n, d in zip(STEPS, documents, strict=True)
    )
    assert parts["a load's parser, at most"] == (7, 7, 7)
    assert parts["index"] == parts["index, while it optimizes"]
    assert all(list(part.step_bytes) == sorted(part.step_bytes) for part in made.parts)


def test_a_home_with_documents_says_what_the_next_are_like() -> None:
    """Notes of one chunk each take more objects and tuples per chunk than books do."""
    notes = plan(Census(n_documents=1_000, n_chunks=1_000, n_tuples=3_000), 0)
    books = plan(Census(n_documents=1_000, n_chunks=50_000, n_tuples=1_000), 0)
    by_name = [{part.name: part.step_bytes[-1] for part in made.parts} for made in (notes, books)]
    assert (notes.chunks_per_document, books.chunks_per_document) == (1.0, 50.0)
    assert by_name[0]["objects"] > by_name[1]["objects"]
    assert (
        by_name[0]["permissions"] == sizes.SPICEDB_MEMORY.fixed + 3_000_000 * sizes.SPICEDB_MEMORY.per_tuple
    )
