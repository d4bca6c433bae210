"""The parse stage: whatever one file does to its parser, the next file is parsed."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cortex.documents import BlockKind, ParsedBody
from cortex.settings import Settings
from data_jobs.parsers.failures import FailureCode, ParseFailure
from data_jobs.stages.parse import ParseStage

MODULE = "poison_parsers"
LIMITS = Settings(parse_timeout_s=3.0, parse_memory_bytes=400_000_000, max_file_bytes=1_000_000)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ParseStage]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with ParseStage(LIMITS, extra_parsers=(MODULE,)) as stage:
        yield stage


def failure(result: ParsedBody | ParseFailure) -> ParseFailure:
    assert isinstance(result, ParseFailure)
    return result


@pytest.mark.parametrize(
    ("suffix", "code"),
    [
        ("hang", FailureCode.TIMEOUT),
        ("hog", FailureCode.OUT_OF_MEMORY),
        ("crash", FailureCode.CRASHED_PARSER),
        ("leave", FailureCode.CRASHED_PARSER),
        ("stumble", FailureCode.CORRUPT),
        ("dig", FailureCode.CORRUPT),
        ("phone_home", FailureCode.CORRUPT),
        ("shout", FailureCode.CORRUPT),
    ],
)
def test_poison_is_listed_and_the_next_file_parses(stage: ParseStage, suffix: str, code: FailureCode) -> None:
    """A file that hangs, hogs, crashes or stumbles is a failure with its code, within bounds; the next one parses."""
    started = time.monotonic()
    assert failure(stage.parse(b"poison", f"a.{suffix}")).code == code
    assert time.monotonic() - started < LIMITS.parse_timeout_s + 60
    body = stage.parse(b"still here", "a.txt")
    assert isinstance(body, ParsedBody)
    assert [block.text for block in body.blocks] == ["still here"]


def test_watchdog_sees_resident_memory() -> None:
    """Memory held for long is noticed by its size, not only by a refused allocation."""
    limits = LIMITS.model_copy(update={"parse_timeout_s": 20.0, "parse_memory_bytes": 140_000_000})
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    try:
        with ParseStage(limits, extra_parsers=(MODULE,)) as stage:
            assert failure(stage.parse(b"x", "a.grow")).code == FailureCode.OUT_OF_MEMORY
    finally:
        del os.environ["PYTHONPATH"]


def test_reason_never_quotes_the_file(stage: ParseStage) -> None:
    """The reason of a stumbling parser names the error and its place, not its message, which may hold document text."""
    reason = failure(stage.parse(b"x", "a.stumble")).reason
    assert "ZeroDivisionError" in reason
    assert "secret" not in reason


def test_parsers_cannot_write(stage: ParseStage, tmp_path: Path) -> None:
    """A parser that tries to write a file is refused and nothing appears."""
    target = tmp_path / "out.txt"
    assert failure(stage.parse(str(target).encode(), "a.write")).code == FailureCode.CORRUPT
    assert not target.exists()


def test_the_folder_being_read_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file named like a module, in the folder where ingest was started, does not run."""
    (tmp_path / "email.py").write_text("raise SystemExit(9)")
    (tmp_path / "lxml.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    with ParseStage(LIMITS) as stage:
        assert isinstance(stage.parse(b"<p>fine</p>", "a.html"), ParsedBody)


def test_the_child_is_reused_and_ends_with_the_stage() -> None:
    """Many files share one child, and closing the stage leaves no process behind."""
    before = {child.pid for child in psutil.Process().children()}
    with ParseStage(LIMITS) as stage:
        stage.parse(b"one", "a.txt")
        (child,) = {process.pid for process in psutil.Process().children()} - before
        stage.parse(b"two", "b.md")
        assert {process.pid for process in psutil.Process().children()} - before == {child}
    assert not psutil.pid_exists(child)


def test_a_child_that_died_between_files_is_replaced(stage: ParseStage) -> None:
    """Killing the idle child from outside costs no file."""
    before = {process.pid for process in psutil.Process().children()}
    stage.parse(b"one", "a.txt")
    (child,) = [process for process in psutil.Process().children() if process.pid not in before] or [None]
    assert child is not None
    child.kill()
    child.wait(5)
    assert isinstance(stage.parse(b"two", "a.txt"), ParsedBody)


@pytest.mark.parametrize(
    ("content", "name", "code"),
    [
        (b"", "a.txt", FailureCode.EMPTY),
        (b" \n\t\n", "a.txt", FailureCode.NO_TEXT),
        (b"<html><script>x</script></html>", "a.html", FailureCode.NO_TEXT),
        (b"x" * 1_000_001, "a.txt", FailureCode.TOO_LARGE),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a.txt", FailureCode.UNSUPPORTED),
        (bytes(range(256)) * 8, "a.txt", FailureCode.UNSUPPORTED),
    ],
)
def test_files_without_text_have_a_reason(content: bytes, name: str, code: FailureCode) -> None:
    """Nothing parses to nothing: each kind of silence has its own code and a reason."""
    with ParseStage(LIMITS) as stage:
        found = failure(stage.parse(content, name))
    assert found.code == code
    assert found.reason


def test_results_cross_the_wire_whole(stage: ParseStage) -> None:
    """Blocks, anchors, heading paths, symbols and metadata arrive as the parser made them."""
    text = "---\ntitle: Fährplan\ndate: 2026-01-02\n---\n# Über\n\nEin Satz – mit 漢字.\n\n- eins\n  - zwei\n"
    body = stage.parse(text.encode(), "a.md")
    assert isinstance(body, ParsedBody)
    assert body.title == "Fährplan"
    assert body.created_at is not None and body.created_at.isoformat() == "2026-01-02T00:00:00+00:00"
    assert [(b.kind, b.text, b.anchor.fragment, b.heading_path) for b in body.blocks] == [
        (BlockKind.HEADING, "Über", "L5", ()),
        (BlockKind.PARAGRAPH, "Ein Satz – mit 漢字.", "L7", ("Über",)),
        (BlockKind.LIST, "- eins", "L9", ("Über",)),
        (BlockKind.LIST, "  - zwei", "L10", ("Über",)),
    ]


def test_poison_module_stays_in_the_child() -> None:
    """The misbehaving parsers are registered in the child alone."""
    assert importlib.util.find_spec("data_jobs.parsers") is not None
    assert MODULE not in sys.modules
