"""The files connector on trees that people really have, and on nasty ones."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.files import FilesConnector
from cortex.documents import NOBODY, Grant, GrantKind, Item, Membership, ParsedBody
from cortex.errors import InputError
from cortex.ports.connectors import FetchFailure, Skipped, SourceConfig

ANA = Grant(GrantKind.USER, "ana")
EVERYONE = Grant(GrantKind.EVERYONE)


def files(root: Path, **options: str) -> FilesConnector:
    return FilesConnector(SourceConfig("acme", "s", "files", "tree", options={"root": str(root), **options}))


def write(path: Path, text: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def ids(connector: FilesConnector, cursor: str = "") -> list[str]:
    return [found.external_id for found in connector.fetch(cursor) if isinstance(found, Item)]


def failures(connector: FilesConnector) -> dict[str, str]:
    return {found.external_id: found.code for found in connector.fetch("") if isinstance(found, FetchFailure)}


def left_out(connector: FilesConnector) -> set[tuple[str, str]]:
    return {(found.code, found.example) for found in connector.fetch("") if isinstance(found, Skipped)}


def viewers(connector: FilesConnector) -> dict[str, frozenset[Grant]]:
    return {
        found.external_id: connector.acls(found).viewers
        for found in connector.fetch("")
        if isinstance(found, Item)
    }


def test_hidden_names_and_tool_folders_are_skipped(tmp_path: Path) -> None:
    """Dot files, dot folders, Office locks, node_modules, CVS and __pycache__ are left out, each by its kind."""
    for name in (".env", ".git/HEAD", "node_modules/a/b.js", "CVS/Root", "a/__pycache__/x.py", "~$plan.docx"):
        write(tmp_path / name)
    write(tmp_path / "a/kept.md")
    write(tmp_path / ".cortex-access.yaml", "viewers: {everyone: true}")
    assert ids(files(tmp_path)) == ["a/kept.md"]
    assert failures(files(tmp_path)) == {}
    assert left_out(files(tmp_path)) == {
        ("name.hidden", ".env"),
        ("name.hidden", ".git"),
        ("file.lock", "~$plan.docx"),
        ("folder.tools", "node_modules"),
        ("folder.tools", "CVS"),
        ("folder.tools", "a/__pycache__"),
    }


def test_links_are_never_followed(tmp_path: Path) -> None:
    """A link inside the root is listed once, under its target; every other link is reported."""
    root = tmp_path / "root"
    write(root / "a/page.md")
    write(tmp_path / "secret.txt")
    (root / "inside").symlink_to(root / "a")
    (root / "outside").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "broken").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    (root / "a/self").symlink_to(root)
    connector = files(root)
    assert ids(connector) == ["a/page.md"]
    assert failures(connector) == {
        "outside": "link.outside",
        "up": "link.outside",
        "broken": "link.broken",
        "loop": "link.loop",
    }
    assert left_out(connector) == {("link.inside", "inside"), ("link.inside", "a/self")}


def test_what_is_no_document_is_reported(tmp_path: Path) -> None:
    """A pipe, a socket and a name that is no UTF-8 are failures, and the rest is listed."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x")
    write(tmp_path / "日本語 ملف.txt")
    connector = files(tmp_path)
    assert ids(connector) == ["日本語 ملف.txt"]
    assert failures(connector) == {
        "pipe": "file.special",
        "socket": "file.special",
        "caf\\xe9.txt": "name.undecodable",
    }


def test_a_missing_root_is_one_failure_for_everything(tmp_path: Path) -> None:
    """A root that vanished is reported under the empty path, which covers every document of the source."""
    assert failures(files(tmp_path / "gone")) == {"": "folder.unreadable"}


def test_an_unreadable_folder_is_reported_under_its_own_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be listed is a failure of its path, and the rest is listed."""
    write(tmp_path / "closed/a.md")
    write(tmp_path / "open/b.md")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    connector = files(tmp_path)
    assert ids(connector) == ["open/b.md"]
    assert failures(connector) == {"closed": "folder.unreadable"}


def test_very_deep_folders_are_walked(tmp_path: Path) -> None:
    """Three hundred folders in each other are no problem."""
    folder = tmp_path
    for _ in range(300):
        folder = folder / "d"
        folder.mkdir()
    write(folder / "deep.txt")
    assert ids(files(tmp_path)) == ["/".join(["d"] * 300) + "/deep.txt"]


def test_one_file_can_be_a_source(tmp_path: Path) -> None:
    """A root that is a file lists that file alone, named as it would be inside its folder."""
    write(tmp_path / "b.md")
    only = write(tmp_path / "a.md")
    connector = files(only)
    assert ids(connector) == ["a.md"]
    assert ids(connector, "a.md") == []


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    """Another content of equal length, even with the old modification time put back, is another fingerprint."""
    path = write(tmp_path / "a.md", "one")
    (first,) = (found for found in files(tmp_path).fetch("") if isinstance(found, Item))
    state = path.stat()
    path.write_text("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    (second,) = (found for found in files(tmp_path).fetch("") if isinstance(found, Item))
    assert first.meta["fingerprint"] != second.meta["fingerprint"]


def test_the_permalink_points_to_the_file(tmp_path: Path) -> None:
    """A permalink is the file's own URL, escaped."""
    connector = files(tmp_path)
    write(tmp_path / "a b#1.md")
    (item,) = (found for found in connector.fetch("") if isinstance(found, Item))
    document = connector.normalize(item, ParsedBody(body="", blocks=()), "0" * 64)
    assert document.permalink == f"file://{tmp_path}/a%20b%231.md"
    assert document.title == "a b#1.md"


@pytest.mark.parametrize("options", [{"root": ""}, {"root": "/tmp", "access": "open"}, {"root": "/\udcff"}])
def test_options_that_cannot_work_are_refused(options: dict[str, str]) -> None:
    """A source without a root, with an unknown access mode, or under a name that is no UTF-8, is an input error."""
    with pytest.raises(InputError):
        FilesConnector(SourceConfig("acme", "s", "files", "tree", options=options))


def test_the_nearest_access_file_that_speaks_wins(tmp_path: Path) -> None:
    """A folder's own list replaces that above; a pattern comes before the list; a silent file passes on."""
    write(tmp_path / ".cortex-access.yaml", "viewers: {users: [ana]}\n")
    write(tmp_path / "b/.cortex-access.yaml", "files: [{pattern: '*.csv', viewers: {everyone: true}}]\n")
    write(tmp_path / "c/.cortex-access.yaml", "viewers: {groups: [eng]}\ndenied: {users: [bo]}\n")
    for name in ("a.md", "b/a.md", "b/d/a.csv", "c/a.md"):
        write(tmp_path / name)
    connector = files(tmp_path)
    assert viewers(connector) == {
        "a.md": {ANA},
        "b/a.md": {ANA},
        "b/d/a.csv": {EVERYONE},
        "c/a.md": {Grant(GrantKind.GROUP, "eng")},
    }
    (item,) = (found for found in connector.fetch("b/d/a.csv") if isinstance(found, Item))
    assert connector.acls(item).denied == {Grant(GrantKind.USER, "bo")}


@pytest.mark.parametrize(
    "text",
    [
        "viewers: {everyone: yes please}",
        "viewers: {user: [ana]}",
        "viewers: [ana]",
        "viewers: {users: [no]}",
        "viewers: {users: ['']}",
        "viewers: {users: [ana]}\nviewers: {everyone: true}",
        "viewer: {everyone: true}",
        "viewers: {users: [ana",
        "\x00",
        "[" * 5_000,
        "- everyone",
        "viewers: !!python/object/apply:os.system [id]",
        "groups: {'posix:root': {users: [ana]}}\nviewers: {everyone: true}",
        "groups: {'slack:G0SEC': {users: [ana]}}\nviewers: {everyone: true}",
    ],
)
def test_an_access_file_that_cannot_be_used_closes_its_subtree(tmp_path: Path, text: str) -> None:
    """Whatever is wrong with it, nobody may read what is below, it is reported, and the rest stays as it was."""
    write(tmp_path / "open/a.md")
    write(tmp_path / "open/.cortex-access.yaml", "viewers: {everyone: true}")
    write(tmp_path / "shut/.cortex-access.yaml", text)
    write(tmp_path / "shut/deep/b.md")
    connector = files(tmp_path)
    assert viewers(connector) == {"open/a.md": {EVERYONE}, "shut/deep/b.md": frozenset()}
    assert failures(connector) == {"shut/.cortex-access.yaml": "access.malformed"}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "huge"])
def test_an_access_file_that_is_no_plain_file_closes_its_subtree(tmp_path: Path, kind: str) -> None:
    """A link, a pipe, a folder or a huge file under that name closes what is below, without hanging."""
    write(tmp_path / "a.md")
    place = tmp_path / ".cortex-access.yaml"
    if kind == "link":
        place.symlink_to(write(tmp_path / "x.yaml", "viewers: {everyone: true}"))
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.write_text("viewers: {everyone: true}\n" + "#" * 2_000_000)
    connector = files(tmp_path)
    assert viewers(connector)["a.md"] == frozenset()
    assert failures(connector) == {".cortex-access.yaml": "access.malformed"}


def test_a_chain_of_silent_access_files_closes(tmp_path: Path) -> None:
    """Where access files exist and none decides, POSIX modes do not step in."""
    write(tmp_path / ".cortex-access.yaml", "groups: {eng: {users: [ana]}}\n")
    write(tmp_path / "a.md").chmod(0o644)
    assert viewers(files(tmp_path)) == {"a.md": frozenset()}


def test_an_access_file_above_the_root_rules_too(tmp_path: Path) -> None:
    """Loading a part of a tree gives it the access that loading the whole would."""
    write(tmp_path / ".cortex-access.yaml", "viewers: {users: [ana]}\ngroups: {eng: {users: [ana]}}\n")
    write(tmp_path / "part/a.md")
    connector = files(tmp_path / "part")
    assert viewers(connector) == {"a.md": {ANA}}
    assert list(connector.memberships()) == [Membership("eng", ANA)]


def test_a_strangers_access_file_above_the_root_closes(tmp_path: Path) -> None:
    """Above the root, only access files of root, the root folder's owner or the caller are believed."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    write(tmp_path / "part/a.md")
    os.chown(write(tmp_path / ".cortex-access.yaml", "viewers: {everyone: true}"), 65534, -1)
    connector = files(tmp_path / "part")
    assert viewers(connector) == {"a.md": frozenset()}
    assert failures(connector) == {str(tmp_path / ".cortex-access.yaml"): "access.malformed"}


def test_groups_are_defined_at_the_root_alone(tmp_path: Path) -> None:
    """Nested groups come out as edges; a subfolder that defines groups is closed."""
    write(
        tmp_path / ".cortex-access.yaml",
        "groups: {all: {groups: [eng]}, eng: {users: [bo, ana]}}\nviewers: {groups: [all]}\n",
    )
    write(tmp_path / "sub/.cortex-access.yaml", "groups: {eng: {users: [eve]}}\nviewers: {users: [ana]}\n")
    write(tmp_path / "sub/a.md")
    connector = files(tmp_path)
    assert list(connector.memberships()) == [
        Membership("all", Grant(GrantKind.GROUP, "eng")),
        Membership("eng", ANA),
        Membership("eng", Grant(GrantKind.USER, "bo")),
    ]
    assert viewers(connector) == {"sub/a.md": frozenset()}


def test_without_access_files_a_file_only_source_is_dark(tmp_path: Path) -> None:
    """With access=file-only and no access file, the list is unknown."""
    write(tmp_path / "a.md").chmod(0o644)
    connector = files(tmp_path, access="file-only")
    (item,) = (found for found in connector.fetch("") if isinstance(found, Item))
    assert connector.acls(item) == NOBODY


def test_an_access_file_that_changes_is_read_again(tmp_path: Path) -> None:
    """A connector that stays alive sees the new list."""
    rules = write(tmp_path / ".cortex-access.yaml", "viewers: {users: [ana]}")
    write(tmp_path / "a.md")
    connector = files(tmp_path)
    assert viewers(connector) == {"a.md": {ANA}}
    rules.write_text("viewers: {everyone: true}")
    assert viewers(connector) == {"a.md": {EVERYONE}}


NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=8
).filter(lambda name: not name.startswith((".", "~$")) and name not in ("CVS", "node_modules"))


@given(paths=st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=8), data=st.data())
def test_any_tree_resumes_from_any_place(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]], data: st.DataObject
) -> None:
    """Whatever the names, resuming after any file lists exactly the rest."""
    root = tmp_path_factory.mktemp("tree")
    for parts in paths:
        path = root.joinpath(*parts)
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            write(path)
    whole = ids(files(root))
    assert whole == sorted(whole, key=lambda path: path.split("/"))
    split = data.draw(st.integers(0, len(whole)))
    assert ids(files(root), whole[split - 1] if split else "") == whole[split:]
