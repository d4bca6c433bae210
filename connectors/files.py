"""The files connector: a folder, or one file, of this machine as a source.

Options: `root` (path), `access` (`posix`, the default: an access file decides, else owner, group and modes;
`file-only`: without an access file nobody may read). A cursor is a place in the listing: a pass resumes after it;
what changed is found by the fingerprint (size, modification and status-change time) in a new pass from the start.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from connectors.access_files import NAME, AccessFile, AccessTree
from connectors.document import document_of
from connectors.files_walk import Entry, Folder, look_at, printable, walk
from connectors.posix_access import PosixAccess, posix_memberships
from cortex.documents import NOBODY, Acl, Document, Item, Membership, ParsedBody
from cortex.errors import InputError, Unauthenticated
from cortex.ports.connectors import Fetched, FetchFailure, Skipped, SourceConfig, WebhookEvent

_TYPES = mimetypes.MimeTypes()  # the built-in table alone: the same on every machine
_MORE_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".org": "text/org",
    ".rst": "text/x-rst",
    ".adoc": "text/asciidoc",
    ".vtt": "text/vtt",
    ".srt": "application/x-subrip",
    ".eml": "message/rfc822",
    ".jsonl": "application/x-ndjson",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".ts": "text/typescript",
    ".go": "text/x-go",
    ".rs": "text/x-rust",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
for _extension, _media_type in _MORE_TYPES.items():
    _TYPES.add_type(_media_type, _extension)

ACCESS_MODES = ("posix", "file-only")


class FilesConnector:
    """Files of a folder, with access from access files or POSIX modes."""

    source_type: ClassVar[str] = "files"

    def __init__(self, config: SourceConfig) -> None:
        path = config.options.get("root", "")
        self._access_mode = config.options.get("access", "posix")
        if not path or self._access_mode not in ACCESS_MODES:
            raise InputError(
                "a source of files needs a root, and access=posix or access=file-only", code="source.invalid"
            )
        if printable(path) != path:
            raise InputError("the root's own path is not valid UTF-8", code="source.invalid")
        self._config = config
        given = Path(path).expanduser().resolve()
        self._only = given.name if given.is_file() else ""
        self._root = given.parent if self._only else given
        self._access = AccessTree(self._root)
        self._posix = PosixAccess()

    def fetch(self, cursor: str) -> Iterator[Fetched]:
        """List files depth first in the order of their names, and what cannot be listed, with the reason."""
        if not cursor:
            yield from self._problems_above()
        for found in self._walk(cursor):
            if isinstance(found, Entry):
                yield self._item(found)
            elif isinstance(found, FetchFailure | Skipped):
                yield found
            elif found.external_id and (access := self._access.at(found.path)):
                yield from _problem(access, f"{found.external_id}/{NAME}")

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        """Make the document of a file: its own title, else its name; its own date, else the modification time."""
        permalink = (self._root / item.external_id).as_uri()
        document = document_of(self._config, item, parsed, content_sha256, permalink)
        return replace(
            document,
            title=document.title or item.external_id.rpartition("/")[2],
            meta={**parsed.meta, "path": item.external_id},
        )

    def acls(self, item: Item) -> Acl:
        """Say who may view a file: the nearest access file that decides, else its POSIX owner, group and modes."""
        path = self._root / item.external_id
        ruled = self._access.acl(path)
        if ruled is not None:
            return ruled
        return self._posix.acl(path) if self._access_mode == "posix" else NOBODY

    def memberships(self) -> Iterable[Membership]:
        """List the groups that the root's access file defines, and the POSIX groups of the files it does not rule."""
        yield from self._access.memberships()
        if self._access_mode == "posix":
            found = self._walk("")
            entries = (entry for entry in found if isinstance(entry, Entry))
            yield from posix_memberships(
                {entry.state.st_gid for entry in entries if self._access.acl(entry.path) is None}
            )

    def cursor(self, items: Sequence[Item]) -> str:
        """Return the path of the last item: the next fetch lists what comes after it."""
        return items[-1].external_id if items else ""

    def webhook(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """Refuse every push: a folder sends none."""
        raise Unauthenticated("a folder sends no pushes", code="webhook.unsigned")

    def _walk(self, cursor: str) -> Iterator[Entry | Folder | FetchFailure | Skipped]:
        if not self._only:
            yield from walk(self._root, cursor)
        elif cursor < self._only:
            yield look_at(self._root, self._only)

    def _item(self, entry: Entry) -> Item:
        state = entry.state
        return Item(
            external_id=entry.external_id,
            media_type=_TYPES.guess_type(entry.path.name)[0] or "application/octet-stream",
            path=str(entry.path),
            modified_at=datetime.fromtimestamp(state.st_mtime, UTC),
            size_bytes=state.st_size,
            meta={"fingerprint": f"{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}"},
        )

    def _problems_above(self) -> Iterator[FetchFailure]:
        for access in self._access.above():
            inside = access.folder == self._root
            yield from _problem(access, NAME if inside else str(access.folder / NAME))


def _problem(access: AccessFile, external_id: str) -> Iterator[FetchFailure]:
    if access.rules is None:
        reason = f"{access.problem}; nobody may read what is below until it is corrected"
        yield FetchFailure(external_id, "access.malformed", reason)
