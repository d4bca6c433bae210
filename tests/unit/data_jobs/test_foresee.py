"""What a large load adds, foreseen."""

from pathlib import Path

import pytest

from cortex.settings import Settings
from data_jobs import foresee as module
from data_jobs import sizes
from data_jobs.foresee import LARGE_DOCUMENTS, Census, Forecast, announcing, forecast
from data_jobs.run import Counts


def test_a_load_adds_what_its_chunks_documents_and_tuples_take() -> None:
    """What a home takes when empty is not added again, and a full disk or memory is seen."""
    made = forecast(Census(n_documents=500, n_chunks=1_000, n_tuples=1_000), 10_000, 10**12, 10**12)
    assert (made.documents, made.chunks) == (10_000, 20_000)
    assert (
        made.memory_bytes == 20_000 * sizes.INDEX_MEMORY.per_chunk + 20_000 * sizes.SPICEDB_MEMORY.per_tuple
    )
    disk = 20_000 * (sizes.CATALOG.per_chunk + 2 * sizes.INDEX.per_chunk + sizes.OBJECTS.per_chunk)
    assert made.disk_bytes == disk + 10_000 * (sizes.CATALOG.per_document + sizes.OBJECTS.per_document)
    assert made.fits
    assert not forecast(Census(), 10_000, made.disk_bytes // 10, 10**12).fits
    assert not forecast(Census(), 10_000, 10**12, made.memory_bytes // 10).fits


@pytest.mark.parametrize(
    ("first", "announced"),
    [
        (Counts(total=LARGE_DOCUMENTS + 7, unchanged=4, failed=3), [LARGE_DOCUMENTS]),
        (Counts(total=LARGE_DOCUMENTS + 7, unchanged=5, failed=3), []),
    ],
)
def test_only_a_large_load_is_announced_and_only_once(
    first: Counts, announced: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What counts is what has to be made, as the first word of the run says; all words are passed on."""
    monkeypatch.setattr(module, "count", lambda url: Census())
    said: list[Forecast] = []
    passed: list[Counts] = []
    watch = announcing(Settings(home=tmp_path), said.append, passed.append)
    watch(first)
    watch(Counts(total=10 * LARGE_DOCUMENTS))
    assert [one.documents for one in said] == announced
    assert passed == [first, Counts(total=10 * LARGE_DOCUMENTS)]
