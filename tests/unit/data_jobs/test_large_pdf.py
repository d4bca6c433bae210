"""A PDF of two thousand pages, prepared within bounded memory: `python -m pytest -m slow`."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import psutil
import pytest

from connectors.registry import build_connector
from cortex.settings import Settings
from data_jobs.compare import changed
from data_jobs.parts import build_objects, build_token_counter
from data_jobs.rows import Row
from data_jobs.sources import files_source
from data_jobs.stages.parse import ParseStage
from data_jobs.work import build_prepare, prepare_one
from tests.unit.data_jobs.test_pdf import Put, lines, pdf_file

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

N_PAGES = 2_000
LINES_PER_PAGE = 45
WORDS = ("valve", "sensor", "invoice", "harbour", "quorum", "pallet", "torque", "budget", "falcon", "lattice")
MOST_BYTES = 1_500_000_000


def page(chance: random.Random) -> list[Put]:
    return lines(40, 580, *(" ".join(chance.choices(WORDS, k=12)) for _ in range(LINES_PER_PAGE)))


def watch(peak: dict[str, int], is_over: threading.Event) -> None:
    """Note the most that this process and its children ever held together."""
    while not is_over.wait(0.05):
        held = 0
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            try:
                held += process.memory_info().rss
            except psutil.Error:
                continue
        peak["n_bytes"] = max(peak["n_bytes"], held)


def test_two_thousand_pages_take_less_than_a_gigabyte_and_a_half(tmp_path: Path) -> None:
    """Every page comes out in chunks, and parser and chunker together stay below 1.5 GB."""
    settings = Settings(home=tmp_path / "home", parse_timeout_s=300)
    (tmp_path / "pages").mkdir()
    chance = random.Random(5)
    content = pdf_file([page(chance) for _ in range(N_PAGES)])
    (tmp_path / "pages" / "large.pdf").write_bytes(content)
    connector = build_connector(files_source(settings, tmp_path / "pages"))
    (row,) = [row for row in changed(connector, {}, "") if isinstance(row, Row)]
    peak, is_over = {"n_bytes": 0}, threading.Event()
    watcher = threading.Thread(target=watch, args=(peak, is_over))
    watcher.start()
    try:
        with ParseStage(settings) as parse:
            tokens = build_token_counter(settings)
            prepare = build_prepare(settings, connector, parse, build_objects(settings), tokens)
            done = prepare_one(prepare, row)
    finally:
        is_over.set()
        watcher.join()
    print(f"{len(content):,} bytes, {done.n_chunks:,} chunks, {peak['n_bytes'] / 1e6:.0f} MB")
    assert done.failure is None
    shown = {number for chunk in done.chunks for number in range(chunk.anchor.start, chunk.anchor.end + 1)}
    assert shown == set(range(1, N_PAGES + 1))
    assert peak["n_bytes"] < MOST_BYTES
