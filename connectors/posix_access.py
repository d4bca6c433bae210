"""POSIX access: owner, group and others of a file and of every folder above it, as grants.

A grant is given only where it is certain. The owner needs read on the file and search on each folder, through the
class that the kernel would use for that person (owner, else group, else others); the group likewise; others mean
everyone in the tenant. A class that is shut out where others get in is denied by name. Capabilities and POSIX.1e
access control lists are not read.
"""

from __future__ import annotations

import grp
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from os import stat_result
from pathlib import Path

from connectors.access_files import POSIX_PREFIX
from cortex.documents import NOBODY, Acl, Grant, GrantKind, Membership


@dataclass(frozen=True, slots=True)
class Node:
    """One file or folder as the kernel judges it: who owns it, and which class may pass (read, or search)."""

    uid: int
    gid: int
    owner: bool
    group: bool
    others: bool

    @staticmethod
    def of(state: stat_result) -> Node:
        user, group, others = (
            (stat.S_IXUSR, stat.S_IXGRP, stat.S_IXOTH)
            if stat.S_ISDIR(state.st_mode)
            else (stat.S_IRUSR, stat.S_IRGRP, stat.S_IROTH)
        )
        mode = state.st_mode
        return Node(state.st_uid, state.st_gid, bool(mode & user), bool(mode & group), bool(mode & others))

    def admits(self, uid: int, gids: frozenset[int]) -> bool:
        """Say whether a person passes, by the first class that fits."""
        if uid == self.uid:
            return self.owner
        return self.group if self.gid in gids else self.others

    def admits_group(self, gid: int) -> bool:
        """Say whether every member of a group passes, whatever else they are; the owner is judged apart."""
        return self.group if gid == self.gid else self.others and self.group


class PosixAccess:
    """This machine's users and groups, looked up once per instance."""

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}
        self._users: dict[int, tuple[str, frozenset[int]]] = {}

    def acl(self, path: Path) -> Acl:
        """Read the access of a file from its modes; `NOBODY` when they cannot be read."""
        try:
            nodes = [Node.of(path.stat()), *(Node.of(folder.stat()) for folder in path.parents)]
        except OSError:
            return NOBODY
        viewers = frozenset(self._viewers(nodes))
        return Acl(viewers, frozenset(self._denied(nodes)) if viewers else frozenset())

    def _viewers(self, nodes: list[Node]) -> Iterator[Grant]:
        file = nodes[0]
        owner, owner_gids = self._user(file.uid)
        if owner and all(node.admits(file.uid, owner_gids) for node in nodes):
            yield Grant(GrantKind.USER, owner)
        group = self._group(file.gid)
        if group and all(node.admits_group(file.gid) for node in nodes):
            yield Grant(GrantKind.GROUP, group)
        if all(node.others for node in nodes):
            yield Grant(GrantKind.EVERYONE)

    def _denied(self, nodes: list[Node]) -> Iterator[Grant]:
        for node in nodes:
            if not node.owner:
                yield Grant(GrantKind.USER, self._user(node.uid)[0] or str(node.uid))
            if node.others and not node.group:
                yield Grant(GrantKind.GROUP, self._group(node.gid) or f"{POSIX_PREFIX}{node.gid}")

    def _user(self, uid: int) -> tuple[str, frozenset[int]]:
        """Look up a user's name and group ids; an empty name when unknown."""
        if uid not in self._users:
            try:
                person = pwd.getpwuid(uid)
            except KeyError:
                self._users[uid] = ("", frozenset())
            else:
                listed = {group.gr_gid for group in grp.getgrall() if person.pw_name in group.gr_mem}
                self._users[uid] = (person.pw_name, frozenset({person.pw_gid, *listed}))
        return self._users[uid]

    def _group(self, gid: int) -> str:
        """Name a group as grants do; empty when unknown."""
        if gid not in self._groups:
            try:
                self._groups[gid] = f"{POSIX_PREFIX}{grp.getgrgid(gid).gr_name}"
            except KeyError:
                self._groups[gid] = ""
        return self._groups[gid]


def posix_memberships(gids: set[int]) -> Iterator[Membership]:
    """List who belongs to these groups, by the group database and by primary group."""
    people = pwd.getpwall()
    for gid in sorted(gids):
        try:
            listed = grp.getgrgid(gid)
        except KeyError:
            continue
        members = {*listed.gr_mem, *(person.pw_name for person in people if person.pw_gid == gid)}
        group = f"{POSIX_PREFIX}{listed.gr_name}"
        yield from (Membership(group, Grant(GrantKind.USER, name)) for name in sorted(members))
