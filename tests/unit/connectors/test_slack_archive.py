"""Archives as they may come: broken, hostile, huge, packed twice, changed while listed."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from connectors import slack_archive
from cortex.errors import InputError
from cortex.ports.connectors import FetchFailure
from tests.unit.connectors.slack_exports import (
    connector,
    failures,
    files,
    items,
    left_out,
    pack,
    said,
    text_of,
    write,
)


def test_a_zip_and_its_folder_are_the_same_source(tmp_path: Path) -> None:
    """The archive and the folder it was unpacked into list the same items."""
    content = files(said("Hello"))
    assert items(pack(tmp_path / "export.zip", content)) == items(write(tmp_path / "export", content))


def test_an_export_may_lie_in_a_folder_of_the_archive(tmp_path: Path) -> None:
    """Some tools pack the export's own folder: its lists are found below."""
    inner = {f"Acme export/{name}": value for name, value in files(said("Hello")).items()}
    assert text_of(pack(tmp_path / "export.zip", inner)) == "Hello"


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 broken", b"no zip at all"], ids=["empty", "cut", "text"]
)
def test_a_file_that_is_no_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that cannot be opened as a zip stops the run with its name."""
    path = tmp_path / "export.zip"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"export\.zip"):
        items(path)


def test_an_archive_without_people_is_no_export(tmp_path: Path) -> None:
    """Without users.json it is refused, with the reason."""
    with pytest.raises(InputError, match=r"no users\.json"):
        items(pack(tmp_path / "other.zip", {"readme.txt": b"hello"}))


def test_a_damaged_day_hides_what_it_held_and_spares_the_rest(tmp_path: Path) -> None:
    """A day whose bytes do not match their checksum is reported under its channel; other days are loaded."""
    path = pack(
        tmp_path / "export.zip", files(said("Hello"), **{"general/2026-03-03.json": [said("Lost" * 50)]})
    )
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("general/2026-03-03.json").header_offset + 60
    broken = bytearray(path.read_bytes())
    broken[at] ^= 0xFF
    path.write_bytes(bytes(broken))
    assert (text_of(path), failures(path)) == ("Hello", [("C0GEN", "day.unreadable")])


@pytest.mark.parametrize("name", ["../../etc/cron.d/x.json", "/abs/x.json", "..\\x.json", "C:/x.json"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    """An entry whose path leaves the archive is reported and not read."""
    path = pack(tmp_path / "export.zip", files(said("Hello"), **{name: [said("Out")]}))
    assert (text_of(path), failures(path)) == ("Hello", [(name, "archive.entry_refused")])


def test_an_entry_given_twice_counts_once(tmp_path: Path) -> None:
    """Of two entries of one path the first one is read and the other is reported."""
    path = pack(tmp_path / "export.zip", files(said("First")))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("general/2026-03-02.json", json.dumps([said("Second")]))
    assert (text_of(path), failures(path)) == (
        "First",
        [("general/2026-03-02.json", "archive.entry_refused")],
    )


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """A day that unpacks to far more than any chat would is refused by its ratio before it is read."""
    bomb = b'[{"text": "' + b"0" * 20_000_000 + b'"}]'
    path = pack(tmp_path / "export.zip", files(said("Hello"), **{"general/2026-03-03.json": bomb}))
    assert (text_of(path), failures(path)) == ("Hello", [("C0GEN", "day.unreadable")])


@pytest.mark.parametrize("is_packed", [True, False], ids=["zip", "folder"])
def test_a_day_over_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    """A day larger than the limit is reported, packed or not."""
    monkeypatch.setattr(slack_archive, "MAX_FILE_BYTES", 2_000)
    content = files(said("Hello"), **{"general/2026-03-03.json": [said("long " * 600)]})
    path = pack(tmp_path / "e.zip", content) if is_packed else write(tmp_path / "e", content)
    assert (text_of(path), failures(path)) == ("Hello", [("C0GEN", "day.unreadable")])


def test_a_message_of_ten_megabytes_is_loaded_whole(tmp_path: Path) -> None:
    """One line of ten megabytes is one turn, not a failure."""
    long = "all work and no play " * 500_000
    assert text_of(write(tmp_path, files(said(long)))) == long.strip()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link in an unpacked export, to a file or a folder, is reported and not read."""
    outside = write(tmp_path / "outside", {"2026-03-02.json": [said("Secret")]})
    root = write(tmp_path / "export", files(said("Hello")))
    (root / "general" / "2026-03-03.json").symlink_to(outside / "2026-03-02.json")
    (root / "linked").symlink_to(outside)
    found = [("linked", "archive.entry_refused"), ("general/2026-03-03.json", "archive.entry_refused")]
    assert (text_of(root), failures(root)) == ("Hello", found)


def test_a_day_that_vanishes_hides_its_channel(tmp_path: Path) -> None:
    """A day removed between listing and reading is out of sight, not gone."""
    root = write(tmp_path, files(said("Hello"), **{"general/2026-03-03.json": [said("Later")]}))
    source = connector(root)._source()
    (root / "general" / "2026-03-03.json").unlink()
    (channel,) = source.workspace().channels.values()
    found = [each for each in source.messages(channel, 0) if isinstance(each, FetchFailure)]
    assert [(each.external_id, each.code) for each in found] == [("C0GEN", "day.unreadable")]


def test_files_without_messages_are_named_once(tmp_path: Path) -> None:
    """Logs and uploads are no failures: they are counted as left out."""
    more = {"integration_logs.json": [], "__uploads/F1/plan.pdf": b"%PDF", "general/canvas.html": b"<p>"}
    root = write(tmp_path, files(said("Hello"), **more))
    assert (failures(root), left_out(root)) == ([], {"archive.not_read": 3})


def test_an_entry_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    """A day that unpacks to more than its entry says is broken: it is not read past what was said."""
    path = pack(tmp_path / "e.zip", files(said("Hello"), **{"general/2026-03-03.json": [said("x" * 5_000)]}))
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"general/2026-03-03.json") - 46  # its record in the directory at the end
    content[entry + 24 : entry + 28] = (9).to_bytes(4, "little")
    path.write_bytes(content)
    assert (text_of(path), failures(path)) == ("Hello", [("C0GEN", "day.unreadable")])


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    """A day behind a password is out of sight, and the others are read."""
    path = pack(tmp_path / "e.zip", files(said("Hello"), **{"general/2026-03-03.json": [said("Locked")]}))
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"general/2026-03-03.json") - 46
    content[entry + 8] |= 1
    path.write_bytes(content)
    assert (text_of(path), failures(path)) == ("Hello", [("C0GEN", "day.unreadable")])


def test_a_link_packed_into_a_zip_leads_nowhere(tmp_path: Path) -> None:
    """A symbolic link in a zip is a file that holds a path, and no message."""
    path = pack(tmp_path / "e.zip", files(said("Hello")))
    entry = zipfile.ZipInfo("general/2026-03-03.json")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, "/etc/passwd")
    assert (text_of(path), failures(path)) == ("Hello", [("C0GEN", "day.unreadable")])


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export's folder without permission is named, and the rest is read."""
    root = write(tmp_path, files(said("Hello"), **{"closed/2026-03-02.json": [said("Shut")]}))
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert (text_of(root), failures(root)) == ("Hello", [("closed", "archive.entry_refused")])
