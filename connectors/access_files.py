"""Access files: `.cortex-access.yaml` in a folder says who may view the files below it; the nearest one that speaks wins.

    viewers: {users: [ana@acme.example], groups: [engineering], everyone: false}
    denied:  {users: [], groups: [contractors]}
    files:                        # the first pattern that matches decides for a file, before `viewers`
      - pattern: "salaries/*.xlsx"  # no slash: any file of that name below; with one: the path from this folder
        viewers: {groups: [hr]}
    groups:                       # only in the root folder: who belongs to which group; groups may nest
      engineering: {users: [ana@acme.example], groups: [platform]}

A folder is ruled by the nearest access file at or above it that has `viewers` or a matching pattern, above the root
of the source too. A file that cannot be used closes its whole subtree; so does a chain of access files of which none
decides.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cortex.documents import Acl, Grant, GrantKind, Membership

NAME = ".cortex-access.yaml"
POSIX_PREFIX = "posix:"  # groups of this machine
# Groups that others define: an access file may name them, never say who belongs to them.
_DEFINED_ELSEWHERE = (POSIX_PREFIX, "slack:")
MAX_BYTES = 1_000_000
CLOSED = Acl()  # known to be nobody: unlike an unknown list it does replace what was open before

_Name = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=320)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class People(_Model):
    """Users and groups by name, or everyone in the tenant."""

    users: list[_Name] = Field(default_factory=list)
    groups: list[_Name] = Field(default_factory=list)
    everyone: bool = False

    def grants(self) -> frozenset[Grant]:
        named = {Grant(GrantKind.USER, name) for name in self.users}
        named |= {Grant(GrantKind.GROUP, name) for name in self.groups}
        return frozenset(named | ({Grant(GrantKind.EVERYONE)} if self.everyone else set()))


class GroupMembers(_Model):
    users: list[_Name] = Field(default_factory=list)
    groups: list[_Name] = Field(default_factory=list)


class FileRule(_Model):
    pattern: _Name
    viewers: People
    denied: People = People()


class AccessRules(_Model):
    """The content of one access file."""

    viewers: People | None = None
    denied: People = People()
    files: list[FileRule] = Field(default_factory=list)
    groups: dict[_Name, GroupMembers] = Field(default_factory=dict)

    def decide(self, relative: str) -> Acl | None:
        """Return the list for a path below this folder, or None when the file does not speak of it."""
        name = relative.rpartition("/")[2]
        for rule in self.files:
            if fnmatchcase(relative if "/" in rule.pattern else name, rule.pattern):
                return Acl(rule.viewers.grants(), rule.denied.grants() | self.denied.grants())
        if self.viewers is None:
            return None
        return Acl(self.viewers.grants(), self.denied.grants())

    def memberships(self) -> Iterator[Membership]:
        for group, members in sorted(self.groups.items()):
            for kind, names in ((GrantKind.USER, members.users), (GrantKind.GROUP, members.groups)):
                yield from (Membership(group, Grant(kind, name)) for name in sorted(set(names)))


@dataclass(frozen=True, slots=True)
class AccessFile:
    """One access file as read: its folder, and its rules or the reason why it cannot be used."""

    folder: Path
    rules: AccessRules | None
    problem: str = ""


def read_access_file(folder: Path, root: Path, trusted_uids: frozenset[int]) -> AccessFile | None:
    """Read a folder's access file; None when there is none.

    Above the root only files of `trusted_uids` count, so that a stranger cannot open a tree from a shared parent.
    """
    path = folder / NAME
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return AccessFile(folder, None, f"cannot be opened: {error.strerror}")
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_BYTES:
            return AccessFile(folder, None, "is no regular file of at most 1 MB")
        if not folder.is_relative_to(root) and state.st_uid not in trusted_uids:
            return AccessFile(folder, None, "lies above the source and belongs to someone else")
        content = os.read(handle, MAX_BYTES)
    except OSError as error:
        return AccessFile(folder, None, f"cannot be read: {error.strerror}")
    finally:
        os.close(handle)
    return _parse(folder, content, may_define_groups=root.is_relative_to(folder))


def _parse(folder: Path, content: bytes, *, may_define_groups: bool) -> AccessFile:
    try:
        data = yaml.load(content.decode("utf-8"), Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
        rules = AccessRules.model_validate({} if data is None else data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        return AccessFile(folder, None, f"{where}: {first['msg']}")
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        return AccessFile(folder, None, f"is not valid YAML: {_first_line(error)}")
    if rules.groups and not may_define_groups:
        return AccessFile(folder, None, "groups belong into the access file of the root folder")
    if taken := [group for group in rules.groups if group.startswith(_DEFINED_ELSEWHERE)]:
        owner = "this machine" if taken[0].startswith(POSIX_PREFIX) else "Slack"
        return AccessFile(folder, None, f"groups.{taken[0]}: {owner} defines its own groups")
    return AccessFile(folder, rules)


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error) or type(error).__name__
    where = f" (line {mark.line + 1})" if mark else ""
    return f"{problem.splitlines()[0]}{where}"


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key given twice: of two `viewers` nobody could say which one was meant."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len({str(key) for key in keys}) < len(keys):
            raise yaml.constructor.ConstructorError(None, None, "a key is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


class AccessTree:
    """The access files that rule a source: looks from an item's folder up to the top of the file system."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trusted = frozenset({0, os.geteuid(), *_owner(root)})
        self._seen: dict[Path, tuple[tuple[int, ...], AccessFile | None]] = {}

    def at(self, folder: Path) -> AccessFile | None:
        """Return the access file of one folder, reading it again only when it changed."""
        stamp = _stamp(folder / NAME)
        known = self._seen.get(folder)
        if known is None or known[0] != stamp:
            known = (stamp, read_access_file(folder, self._root, self._trusted) if stamp else None)
            self._seen[folder] = known
        return known[1]

    def acl(self, path: Path) -> Acl | None:
        """Decide who may view a file; None when no access file rules it."""
        is_ruled = False
        for folder in path.parents:
            access = self.at(folder)
            if access is None:
                continue
            if access.rules is None:
                return CLOSED
            is_ruled = True
            decided = access.rules.decide(path.relative_to(folder).as_posix())
            if decided is not None:
                return decided
        return CLOSED if is_ruled else None

    def above(self) -> Iterator[AccessFile]:
        """List the access files of the root folder and those above it, top first."""
        for folder in (*reversed(self._root.parents), self._root):
            if access := self.at(folder):
                yield access

    def memberships(self) -> Iterator[Membership]:
        """List the group edges that the access files at and above the root define."""
        for access in self.above():
            if access.rules is not None:
                yield from access.rules.memberships()


def _stamp(path: Path) -> tuple[int, ...]:
    """Identify a file's state; empty when it does not exist. A file that cannot be looked at still counts."""
    try:
        state = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        return (-1, error.errno or 0)
    return (state.st_ino, state.st_mtime_ns, state.st_ctime_ns, state.st_size)


def _owner(path: Path) -> tuple[int, ...]:
    try:
        return (path.stat().st_uid,)
    except OSError:
        return ()
