"""The vault connector: notes with their links, and not one byte written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.connectors.vaults import read_vault, vault

RECORDED = Path(__file__).parents[2] / "fixtures" / "vault" / "tree"


def write(root: Path, notes: dict[str, str]) -> Path:
    for name, text in notes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_recorded_vault_resolves_as_its_author_meant() -> None:
    """Aliases, path endings, headings, blocks, ids, titles and references find their notes; what is missing dangles."""
    assert read_vault(RECORDED).leads() == [
        ("Kitchen plan", "resolved", "Kitchen plan.md"),
        ("Kitchen plan", "resolved", "Kitchen plan.md"),
        ("house/todo", "resolved", "projects/house/todo.md"),
        ("todo", "resolved", "work/todo.md"),
        ("Kitchen plan", "resolved", "Kitchen plan.md"),
        ("Kitchen plan", "resolved", "Kitchen plan.md"),
        ("work/todo.md", "resolved", "work/todo.md"),
        ("Cellar", "dangling", ""),
        ("front door", "resolved", "Home.md"),
        ("./Home.md", "resolved", "Home.md"),
        ("CAFE\u0301 2", "dangling", ""),
        ("11111111-aaaa-4bbb-8ccc-000000000001", "resolved", "org/foo.org"),
        ("The Foo", "resolved", "org/foo.org"),
        ("https://foo.example/paper", "resolved", "org/foo.org"),
        ("../../Kitchen plan", "resolved", "Kitchen plan.md"),
    ]


def test_titles_dates_and_types_of_notes() -> None:
    """A title is that of the front matter, else the first heading, else the file's name; types carry no variant."""
    notes = {document.external_id: document for document in read_vault(RECORDED).documents}
    titles = {name: document.title for name, document in notes.items()}
    assert titles["Home.md"] == "Home"
    assert titles["org/foo.org"] == "Foo"
    assert titles["work/todo.md"] == "todo.md"
    assert str(notes["Home.md"].created_at) == "2024-05-01 00:00:00+00:00"
    assert {document.media_type for document in notes.values()} == {"text/markdown", "text/org"}


def test_namesakes_that_are_alike_are_ambiguous(tmp_path: Path) -> None:
    """Two notes of one name, equally deep and in other folders, are both meant: the link has no one target."""
    write(tmp_path, {"x/n.md": "1", "y/n.md": "2", "from.md": "[[n]] [[x/n]]", "y/from.md": "[[n]]"})
    assert read_vault(tmp_path).leads() == [
        ("n", "ambiguous", ""),
        ("x/n", "resolved", "x/n.md"),
        ("n", "resolved", "y/n.md"),
    ]


def test_links_in_a_circle_and_to_oneself(tmp_path: Path) -> None:
    """A circle of notes is read once and each of its links resolves."""
    write(tmp_path, {"a.md": "[[b]] [[a]]", "b.md": "[[c]]", "c.md": "![[a]]"})
    assert [target for _, _, target in read_vault(tmp_path).leads()] == ["b.md", "a.md", "c.md", "a.md"]


def test_a_dendron_vault_is_known_by_its_settings(tmp_path: Path) -> None:
    """With `dendron.yml` in the root, a label stands before the bar."""
    notes = {"a.b.md": "---\nid: k1\ntitle: AB\n---\n", "a.md": "[[The label|a.b]]"}
    assert ("a.b", "dangling", "") not in read_vault(
        write(tmp_path / "d", {**notes, "dendron.yml": "v: 5"})
    ).leads()
    assert read_vault(write(tmp_path / "d", notes)).leads() == [("a.b", "resolved", "a.b.md")]
    assert read_vault(write(tmp_path / "plain", notes)).leads() == [("The label", "dangling", "")]


def test_bad_entries_are_listed_with_a_reason(tmp_path: Path) -> None:
    """Loops, links that lead out, pictures and empty notes are failures; the notes beside them are read."""
    write(tmp_path, {"good.md": "[[pic.png]] ![](pic.png)", "empty.md": ""})
    (tmp_path / "pic.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "out.md").symlink_to("/etc/hostname")
    found = read_vault(tmp_path)
    assert found.failed == {
        "empty.md": "document.empty",
        "loop": "link.loop",
        "out.md": "link.outside",
        "pic.png": "document.unsupported",
    }
    assert found.leads() == [("pic.png", "external", ""), ("pic.png", "external", "")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_reported(tmp_path: Path) -> None:
    """A folder that may not be listed is a failure of its own."""
    write(tmp_path, {"closed/a.md": "x", "b.md": "y"})
    (tmp_path / "closed").chmod(0)
    try:
        assert read_vault(tmp_path).failed == {"closed": "folder.unreadable"}
    finally:
        (tmp_path / "closed").chmod(0o755)


def test_a_note_that_vanishes_fails_alone(tmp_path: Path) -> None:
    """A note that goes between listing and reading is reported as vanished."""
    from cortex.errors import Unparsable
    from data_jobs.stages.read import read

    write(tmp_path, {"a.md": "x"})
    [item] = vault(tmp_path).fetch("")
    (tmp_path / "a.md").unlink()
    with pytest.raises(Unparsable) as caught:
        read(item, 1_000)  # type: ignore[arg-type]
    assert caught.value.error_code == "file.vanished"


# ------------------------------------------------------------------------------------------------ read-only

# Lists a vault, asks for its access lists and groups, and parses each file in the confined child, as a load does.
LOAD = """
import sys
from connectors.vault import VaultConnector
from cortex.documents import Item
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings
from data_jobs.stages.parse import ParseStage
from data_jobs.stages.read import read
connector = VaultConnector(SourceConfig("acme", "s", "vault", "v", options={"root": sys.argv[1]}))
with ParseStage(Settings()) as parse:
    items = [found for found in connector.fetch("") if isinstance(found, Item)]
    for item in items:
        connector.acls(item)
        parse.parse(read(item, 1_000_000), item.external_id, item.media_type)
list(connector.memberships())
print(len(items))
"""
AUDITED = (
    """
import os, sys
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
def watch(event, arguments):
    if not event.startswith(("open", "os.", "shutil.", "tempfile.", "pathlib.")):
        return
    if any(isinstance(one, (str, bytes, os.PathLike)) and os.fspath(one) and sys.argv[1] in os.fsdecode(one) for one in arguments):
        if event not in ("open", "os.listdir", "os.scandir") or (event == "open" and arguments[2] & WRITING):
            print("WROTE", event, arguments, file=sys.stderr)
sys.addaudithook(watch)
"""
    + LOAD
)
READS = {"open", "openat", "stat", "lstat", "newfstatat", "statx", "fstat", "access", "faccessat", "faccessat2", "readlink",
         "readlinkat", "getdents64", "read", "pread64", "lseek", "close", "fcntl", "mmap", "ioctl", "statfs", "fstatfs",
         "getxattr", "lgetxattr", "execve"}  # fmt: skip


def state(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every entry's mode, times of change, and content."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        seen = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (seen.st_mode, seen.st_mtime_ns, seen.st_ctime_ns, content)
    return found


def can_trace() -> bool:
    command = ["strace", "-o", os.devnull, "true"]
    return shutil.which("strace") is not None and subprocess.run(command, capture_output=True).returncode == 0


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[3])


@pytest.mark.skipif(not can_trace(), reason="no strace that may trace here")
def test_no_system_call_writes_into_a_vault(tmp_path: Path) -> None:
    """Of all system calls of a load, those that concern the vault only look: files are opened for reading alone."""
    root = tmp_path / "the-vault"
    shutil.copytree(RECORDED, root)
    before = state(root)
    log = tmp_path / "calls"
    traced = run("strace", "-f", "-y", "-s", "4096", "-o", str(log), "-e", "trace=%file,%desc",
                 sys.executable, "-c", LOAD, str(root))  # fmt: skip
    assert (traced.returncode, traced.stdout.strip()) == (0, "8"), traced.stderr
    calls = [line.split(maxsplit=1)[1] for line in log.read_text().splitlines() if str(root) in line]
    calls = [call for call in calls if not call.startswith(("execve", "<..."))]
    assert {call.split("(")[0] for call in calls} <= READS
    opened = [call for call in calls if call.startswith("open")]
    assert len(opened) >= 8
    writing = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND")
    assert [call for call in opened if any(flag in call for flag in writing)] == []
    assert [
        call for call in calls if call.startswith("mmap") and "PROT_WRITE" in call and "MAP_SHARED" in call
    ] == []
    assert state(root) == before


def test_the_program_itself_opens_nothing_for_writing(tmp_path: Path) -> None:
    """The interpreter's own record agrees, where no tracer runs; and bytes and times of the vault stay."""
    root = tmp_path / "the-vault"
    shutil.copytree(RECORDED, root)
    before = state(root)
    audited = run(sys.executable, "-c", AUDITED, str(root))
    assert (audited.returncode, audited.stdout.strip(), audited.stderr) == (0, "8", "")
    assert state(root) == before


def test_the_record_would_show_a_write(tmp_path: Path) -> None:
    """The same watch reports a file that is opened for writing, so the test above can fail."""
    shutil.copytree(RECORDED, tmp_path / "v")
    guilty = AUDITED + "\nopen(sys.argv[1] + '/new.md', 'w').close()\n"
    assert "WROTE open" in run(sys.executable, "-c", guilty, str(tmp_path / "v")).stderr


def test_the_recording_lists_what_is_there() -> None:
    """The contract suite's recording and this module look at the same vault."""
    recording = json.loads((RECORDED.parent / "recording.json").read_text())
    assert [document.external_id for document in read_vault(RECORDED).documents] == recording["ids"]
