"""Real and hostile documents: each is parsed or listed with a reason, within bounds, and what is parsed is complete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from cortex.documents import ParsedBody
from cortex.settings import Settings
from data_jobs.parsers.failures import ParseFailure
from data_jobs.stages.parse import ParseStage
from tests.unit.data_jobs.real_files import DATA, Measured, measure, source_files, table

pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not (DATA / "docs").is_dir(), reason=f"no evaluation documents in {DATA}"),
]
LIMITS = Settings(parse_timeout_s=30.0, parse_memory_bytes=1_000_000_000)
# Mean share of the reference's words, per format; what is below one is markup of the reference, or repeats of merged cells.
RECALL = {"md": 0.99, "html": 0.95, "csv": 0.99, "docx": 0.98, "pptx": 0.95, "xlsx": 0.95, "pdf": 0.95, "vtt": 0.99,
          "doc": 0.95, "xls": 0.99, "asciidoc": 0.94, "boxnote": 0.99}  # fmt: skip


@pytest.fixture(scope="module")
def stage() -> Iterator[ParseStage]:
    with ParseStage(LIMITS) as stage:
        yield stage


@pytest.fixture(scope="module")
def documents(stage: ParseStage) -> list[Measured]:
    measured = measure(source_files(DATA / "docs" / "docling"), stage)
    print("\n" + table(measured))
    return measured


def test_documents_are_parsed(documents: list[Measured]) -> None:
    """Every ordinary document is parsed, but for the one behind a password."""
    failed = [(one.path.name, one.result.code) for one in documents if isinstance(one.result, ParseFailure)]
    assert failed == [("2206.01062_pg3.pdf", "document.encrypted")]


def test_blocks_are_exact_spans(documents: list[Measured]) -> None:
    """On real files too, blocks are ordered spans of the body with an anchor of their format's kind."""
    for one in documents:
        if not isinstance(one.result, ParsedBody):
            continue
        encoded, at = one.result.body.encode(), 0
        for block in one.result.blocks:
            assert at <= block.byte_start < block.byte_end <= len(encoded), one.path.name
            assert encoded[block.byte_start : block.byte_end].decode() == block.text, one.path.name
            at = block.byte_end


@pytest.mark.parametrize("format_name", sorted(RECALL))
def test_text_recall(documents: list[Measured], format_name: str) -> None:
    """The body holds the words of the reviewed reference."""
    groups: dict[str, list[float]] = defaultdict(list)
    for one in documents:
        if one.recall is not None:
            groups[one.format_name].append(one.recall)
    recalls = groups[format_name]
    assert sum(recalls) / len(recalls) >= RECALL[format_name]


def test_hostile_documents_have_a_reason(stage: ParseStage) -> None:
    """Bombs, fuzz, passwords and damage: every file ends within bounds, with text or with a listed reason."""
    measured = measure(source_files(DATA / "docs" / "hostile"), stage)
    print("\n" + table(measured))
    assert len(measured) == 59
    assert max(one.seconds for one in measured) < LIMITS.parse_timeout_s + 5
    for one in measured:
        assert not isinstance(one.result, ParseFailure) or one.result.reason, one.path.name
    assert stage.peak_rss_bytes < LIMITS.parse_memory_bytes
