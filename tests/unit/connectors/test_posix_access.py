"""POSIX modes as grants; users and groups by number, so that any account works."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from connectors.posix_access import Node, PosixAccess, posix_memberships
from cortex.documents import NOBODY, Acl, Grant, GrantKind, Membership

EVERYONE = Grant(GrantKind.EVERYONE)
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder that others can reach, so that only the modes below it decide."""
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    return tmp_path


@pytest.fixture
def nobody() -> tuple[int, int, Grant, Grant]:
    """An account with a group of its own."""
    person = pwd.getpwnam("nobody")
    group = grp.getgrgid(person.pw_gid).gr_name
    return (
        person.pw_uid,
        person.pw_gid,
        Grant(GrantKind.USER, "nobody"),
        Grant(GrantKind.GROUP, f"posix:{group}"),
    )


@pytest.mark.parametrize(
    ("mode", "may"),
    [
        (0o644, "user group everyone"),
        (0o640, "user group"),
        (0o600, "user"),
        (0o040, "group -user"),
        (0o000, ""),
        (0o604, "user everyone -group"),
        (0o044, "group everyone -user"),
    ],
)
def test_each_class_becomes_a_grant(
    tree: Path, nobody: tuple[int, int, Grant, Grant], mode: int, may: str
) -> None:
    """Owner, group and others that may read are viewers; a class shut out where others get in is denied."""
    uid, gid, user, group = nobody
    path = tree / "a.md"
    path.write_text("x")
    os.chown(path, uid, gid)
    path.chmod(mode)
    names = {"user": user, "group": group, "everyone": EVERYONE}
    expected = Acl(
        frozenset(names[name] for name in may.split() if name in names),
        frozenset(names[name[1:]] for name in may.split() if name.startswith("-")),
    )
    assert PosixAccess().acl(path) == expected


def test_a_closed_folder_closes_what_is_readable_inside(
    tree: Path, nobody: tuple[int, int, Grant, Grant]
) -> None:
    """A file that everyone may read in a folder that only its owner may enter is the owner's alone."""
    uid, gid, user, _ = nobody
    folder = tree / "home"
    folder.mkdir()
    (folder / "a.md").write_text("x")
    os.chown(folder / "a.md", uid, gid)
    (folder / "a.md").chmod(0o644)
    folder.chmod(0o700)
    assert PosixAccess().acl(folder / "a.md").viewers == frozenset()
    os.chown(folder, uid, gid)
    assert PosixAccess().acl(folder / "a.md").viewers == {user}


def test_a_file_that_vanished_is_unknown(tmp_path: Path) -> None:
    """Modes that cannot be read say nothing."""
    assert PosixAccess().acl(tmp_path / "gone") == NOBODY


def test_an_owner_without_a_name_gets_no_grant(tree: Path) -> None:
    """A number that the machine cannot name is nobody's."""
    path = tree / "a.md"
    path.write_text("x")
    os.chown(path, 54_321, 54_321)
    path.chmod(0o660)
    assert PosixAccess().acl(path).viewers == frozenset()


def test_members_come_from_the_group_database(nobody: tuple[int, int, Grant, Grant]) -> None:
    """Primary groups count as membership, and an unknown group has no members."""
    _, gid, user, group = nobody
    listed = list(posix_memberships({gid, 54_321}))
    assert Membership(group.name, user) in listed
    assert {membership.group_name for membership in listed} == {group.name}


def test_the_first_class_that_fits_decides() -> None:
    """An owner who is also in the group is judged as owner, as the kernel does."""
    node = Node(uid=1, gid=2, owner=False, group=True, others=True)
    assert (node.admits(1, frozenset({2})), node.admits(3, frozenset({2}))) == (False, True)
    closed_group = Node(uid=1, gid=2, owner=True, group=False, others=True)
    assert (closed_group.admits(3, frozenset({2})), closed_group.admits(3, frozenset())) == (False, True)
