"""The walk of a folder: every regular file in a stable order, and every entry that cannot be listed, with its reason.

Symbolic links are never followed: what a link inside the root points to is listed under its own path, and a link that
leads outside, nowhere or in a circle is reported. Left out on purpose, and counted: names that begin with a dot,
Office's lock files (`~$…`), the folders in `SKIPPED_FOLDERS`, and links to what is listed anyway.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from connectors.access_files import NAME as ACCESS_FILE
from cortex.ports.connectors import FetchFailure, Skipped

SKIPPED_FOLDERS = frozenset({"CVS", "__pycache__", "node_modules"})
_SKIPPED_PREFIXES = {
    ".": ("name.hidden", "names that begin with a dot are settings and caches, no documents"),
    "~$": ("file.lock", "Office's lock files say only who has a document open"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One regular file: its path relative to the root, and its state."""

    external_id: str
    path: Path
    state: os.stat_result


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder that the walk enters; `external_id` is empty for the root."""

    external_id: str
    path: Path


def walk(root: Path, after: str = "") -> Iterator[Entry | Folder | FetchFailure | Skipped]:
    """List a tree depth first, each folder's names in code point order, resuming after a path that was listed before.

    A failed folder's `external_id` is its path relative to the root (empty for the root itself), so that nothing
    below it is taken for removed.
    """
    position = tuple(after.split("/")) if after else ()
    stack: list[Folder] = [Folder("", root)]
    pending: list[Iterator[os.DirEntry[str]]] = []
    folders: list[Folder] = []
    while stack or pending:
        if stack:
            folder = stack.pop()
            yield folder
            listed = _listing(folder)
            if isinstance(listed, FetchFailure):
                yield listed
                continue
            pending.append(iter(listed))
            folders.append(folder)
        entry = next(pending[-1], None)
        if entry is None:
            pending.pop()
            folders.pop()
            continue
        child = _relative(folders[-1], entry.name)
        key = tuple(child.split("/"))
        if position and key <= position and position[: len(key)] != key:
            continue
        found = _look(entry, child, root)
        if isinstance(found, Folder):
            stack.append(found)
        elif found is not None and key > position:
            yield found


def look_at(root: Path, name: str) -> Entry | FetchFailure:
    """Look at one file of a folder, by the same rules but those on hidden names: it was asked for."""
    try:
        state = (root / name).lstat()
    except OSError as error:
        return FetchFailure("", "file.unreadable", _reason(error))
    if not stat.S_ISREG(state.st_mode):
        return FetchFailure("", "file.special", "it is no regular file any more")
    return Entry(name, root / name, state)


def _listing(folder: Folder) -> list[os.DirEntry[str]] | FetchFailure:
    try:
        with os.scandir(folder.path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        return FetchFailure(folder.external_id, "folder.unreadable", _reason(error))


def _look(
    entry: os.DirEntry[str], external_id: str, root: Path
) -> Entry | Folder | FetchFailure | Skipped | None:
    """Say what one directory entry is; None for an access file, which is read for what it says."""
    name = entry.name
    if name == ACCESS_FILE:
        return None
    shown = printable(external_id)
    for prefix, (code, reason) in _SKIPPED_PREFIXES.items():
        if name.startswith(prefix):
            return Skipped(code, reason, example=shown)
    if shown != external_id:
        return FetchFailure(shown, "name.undecodable", "the name is not valid UTF-8; rename it")
    try:
        state = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode):
            return _link(Path(entry.path), external_id, root)
    except FileNotFoundError:
        return FetchFailure(external_id, "file.vanished", "it vanished while its folder was listed")
    except OSError as error:
        return FetchFailure(external_id, "file.unreadable", _reason(error))
    if stat.S_ISDIR(state.st_mode):
        if name in SKIPPED_FOLDERS:
            return Skipped("folder.tools", "tools keep their own files in it", example=external_id)
        return Folder(external_id, Path(entry.path))
    if not stat.S_ISREG(state.st_mode):
        return FetchFailure(external_id, "file.special", "a device, pipe or socket holds no document")
    return Entry(external_id, Path(entry.path), state)


def _link(path: Path, external_id: str, root: Path) -> FetchFailure | Skipped:
    """Report a link: a failure when it hides something, else left out, its target being listed under its own path."""
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: how pathlib of Python 3.11 reports a loop
        is_loop = isinstance(error, RuntimeError) or error.errno == errno.ELOOP
        code, reason = ("link.loop", "the link leads in a circle")
        if not is_loop:
            code, reason = ("link.broken", "the link's target cannot be reached")
        return FetchFailure(external_id, code, reason)
    if target.is_relative_to(root):
        return Skipped(
            "link.inside", "what the link leads to is listed under its own path", example=external_id
        )
    return FetchFailure(external_id, "link.outside", "the link leads out of the source; it is not followed")


def printable(text: str) -> str:
    """Replace bytes that are no UTF-8 (lone surrogates) by escapes such as `\\xff`."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _relative(folder: Folder, name: str) -> str:
    return f"{folder.external_id}/{name}" if folder.external_id else name


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
