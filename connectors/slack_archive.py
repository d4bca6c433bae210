"""An export's files, packed or unpacked, opened with care: nothing is extracted, followed outwards or read unbounded."""

from __future__ import annotations

import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from cortex.errors import Unparsable

MAX_FILE_BYTES = 200_000_000  # one day of one channel
# Deflate reaches 1,000:1 on one repeated byte; chats stay below 30:1.
_MAX_RATIO = 200
_RATIO_FROM_BYTES = 5_000_000
_MAX_FILES = 5_000_000
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


class Archive(Protocol):
    """Files by their path inside the export."""

    problems: list[tuple[str, str]]  # path, reason

    def names(self) -> list[str]:
        """List the paths of the files that may be read, in order."""

    def read(self, name: str) -> bytes:
        """Read one file; raises Unparsable with the reason why not."""

    def close(self) -> None:
        """Let go of the archive."""


def open_archive(path: Path) -> Archive:
    """Open an export, a zip or its unpacked folder; raises Unparsable when it is neither."""
    return UnpackedExport(path) if path.is_dir() else PackedExport(path)


def read_json(archive: Archive, name: str) -> Any:
    """Read one JSON file of an export; raises Unparsable."""
    try:
        return json.loads(archive.read(name).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Unparsable(f"{name} is not valid JSON", code="archive.corrupt") from error


class PackedExport:
    """A zip as Slack hands it out."""

    def __init__(self, path: Path) -> None:
        self.problems: list[tuple[str, str]] = []
        try:
            self._zip = zipfile.ZipFile(path)
        except _BROKEN as error:
            raise Unparsable("it is no zip that can be read", code="archive.corrupt") from error
        entries = self._zip.infolist()
        if len(entries) > _MAX_FILES:
            raise Unparsable(f"it packs {len(entries):,} files", code="archive.too_large")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            self._admit(entry)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def read(self, name: str) -> bytes:
        entry = self._entries[name]
        if entry.file_size > MAX_FILE_BYTES:
            raise Unparsable(f"{name} unpacks to {entry.file_size:,} bytes", code="archive.too_large")
        is_bomb = entry.file_size > max(_RATIO_FROM_BYTES, _MAX_RATIO * entry.compress_size)
        if is_bomb:
            raise Unparsable(f"{name} is packed like a zip bomb", code="archive.too_large")
        try:
            with self._zip.open(entry) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except _BROKEN as error:
            raise Unparsable(
                f"{name} cannot be unpacked: {type(error).__name__}", code="archive.corrupt"
            ) from error
        if len(content) > MAX_FILE_BYTES:
            raise Unparsable(f"{name} unpacks to more than it says", code="archive.too_large")
        return content

    def close(self) -> None:
        self._zip.close()

    def _admit(self, entry: zipfile.ZipInfo) -> None:
        name = entry.filename
        if entry.is_dir():
            return
        if not _stays_inside(name):
            self.problems.append((name, "the path leads out of the archive; it is not read"))
        elif name in self._entries:
            self.problems.append((name, "the archive holds this path twice; the first one counts"))
        else:
            self._entries[name] = entry


class UnpackedExport:
    """The folder that a zip was unpacked into; links are not followed."""

    def __init__(self, root: Path) -> None:
        self.problems: list[tuple[str, str]] = []
        self._root = root
        self._names = sorted(self._walk())

    def names(self) -> list[str]:
        return self._names

    def read(self, name: str) -> bytes:
        try:
            handle = os.open(self._root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise Unparsable(f"{name} is no regular file", code="archive.corrupt")
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise Unparsable(f"{name} cannot be read: {error.strerror}", code="archive.corrupt") from error
        if len(content) > MAX_FILE_BYTES:
            raise Unparsable(f"{name} has more than {MAX_FILE_BYTES:,} bytes", code="archive.too_large")
        return content

    def close(self) -> None:
        pass

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root, onerror=self._unlisted):
            here = Path(folder).relative_to(self._root)
            for name in [*folders, *files]:
                inner = (here / name).as_posix()
                if (self._root / inner).is_symlink():
                    self.problems.append((inner, "it is a link; links are not followed"))
                elif name in files:
                    yield inner

    def _unlisted(self, error: OSError) -> None:
        self.problems.append(
            (Path(error.filename or "").name, f"the folder cannot be listed: {error.strerror}")
        )


def _stays_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not name.startswith("/") and ".." not in parts and "\\" not in name and ":" not in parts[0]
