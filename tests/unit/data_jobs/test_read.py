"""Reading an item's bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortex.documents import Item
from cortex.errors import Unparsable
from data_jobs.stages import read as stage
from data_jobs.stages.read import read


def item(path: Path) -> Item:
    return Item("a", "text/plain", path=str(path))


def test_content_and_files_are_read_whole(tmp_path: Path) -> None:
    """Inline content comes as it is, a file's bytes all of them."""
    path = tmp_path / "a"
    path.write_bytes(b"\x00\xff" * 50_000)
    assert read(item(path), 1_000_000) == path.read_bytes()
    assert read(Item("a", "text/plain", content=b"inline"), 1) == b"inline"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: None, "file.vanished"),
        (lambda path: path.mkdir(), "file.changed"),
        (lambda path: os.mkfifo(path), "file.changed"),
        (lambda path: path.symlink_to("/etc/passwd"), "file.unreadable"),
        (lambda path: path.write_bytes(b"x" * 101), "document.too_large"),
    ],
    ids=["vanished", "folder", "pipe", "link", "large"],
)
def test_what_is_no_file_any_more_is_refused(tmp_path: Path, make: object, code: str) -> None:
    """A path that changed its nature since it was listed is a failure with a code, and nothing hangs."""
    make(tmp_path / "a")  # type: ignore[operator]
    with pytest.raises(Unparsable) as caught:
        read(item(tmp_path / "a"), 100)
    assert caught.value.error_code == code


@pytest.mark.parametrize("change", [b"longer than before", b"x", b"other"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    """Whether it grows, shrinks or keeps its size, half of one state is never taken for a document."""
    path = tmp_path / "a"
    path.write_bytes(b"first")
    plain = stage._read_up_to

    def read_then_change(handle: int, n_bytes: int) -> bytes:
        content = plain(handle, n_bytes)
        os.utime(path, ns=(1, 1))
        path.write_bytes(change)
        return content

    monkeypatch.setattr(stage, "_read_up_to", read_then_change)
    with pytest.raises(Unparsable) as caught:
        read(item(path), 100)
    assert caught.value.error_code == "file.changed"
