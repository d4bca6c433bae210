"""Invented documents: what the benchmarks load can be read, and is the same each time."""

from __future__ import annotations

from pathlib import Path

from data_jobs.parsers.pdf import parse_pdf
from eval.invented import write_pdf


def test_an_invented_pdf_has_text_on_every_page(tmp_path: Path) -> None:
    """Each page's words come out with its number; the same seed writes the same file, another seed another."""
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        write_pdf(tmp_path / name, 3, seed)
    one, same, other = ((tmp_path / name).read_bytes() for name in ("one", "same", "other"))
    assert (one == same, one == other) == (True, False)
    blocks = parse_pdf(one, "large.pdf").blocks
    assert {block.anchor.start for block in blocks} == {1, 2, 3}
    assert sum(len(block.text.split()) for block in blocks) == 3 * 30 * 12
