"""Files shared in messages: which become documents of their own, which do not and why, and how their bytes are had.

A file is one document per conversation that it is shared in, `<channel>/<file id>`, so that its access is exactly that
conversation's. See https://docs.slack.dev/reference/objects/file-object.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from connectors.slack_model import arr, ident, obj, word
from cortex.ports.connectors import Skipped

_TYPES_WITHOUT_TEXT = ("image/", "audio/", "video/")


class FileState(StrEnum):
    """Whether a file's content can be had; all but `readable` and `hidden` are left out on purpose."""

    READABLE = "readable"
    HIDDEN = "hidden"
    DELETED = "deleted"
    EXTERNAL = "external"
    NO_TEXT = "no_text"


_REASONS = {
    FileState.DELETED: "it was deleted at its source",
    FileState.EXTERNAL: "its content lies at another service; Slack has only its address",
    FileState.NO_TEXT: "pictures, sound and film hold no text that is read",
}
HIDDEN_REASON = "Slack shows its name and not its content: the plan's limit, or another workspace's file"


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One file as a message shows it. `url` may bear a token of its own: it is never logged, and kept nowhere."""

    file_id: str
    state: FileState
    name: str = ""
    title: str = ""
    media_type: str = ""
    user_id: str = ""
    url: str = ""
    permalink: str = ""
    size_bytes: int = 0
    created_s: int = 0
    version: str = ""

    @property
    def is_readable(self) -> bool:
        """Whether it becomes a document."""
        return self.state is FileState.READABLE


def read_files(raw: dict[str, Any]) -> tuple[SharedFile, ...]:
    """Read the files of a message; those of a message quoted in it belong to another conversation."""
    given = (obj(each) for each in arr(raw.get("files")) or [raw.get("file")])
    found = {file.file_id: file for each in given if (file := _file(each)).file_id}
    return tuple(found.values())


def skipped_file(state: FileState, n: int, example: str) -> Skipped:
    """Say why files in a state are left out."""
    return Skipped(f"file.{state}", _REASONS[state], n, example)


def _file(raw: dict[str, Any]) -> SharedFile:
    file_id = ident(raw.get("id"))
    if not file_id[:1].isalpha():  # beside threads and days, whose names begin with a digit
        return SharedFile("", FileState.HIDDEN)
    media_type = word(raw.get("mimetype")) or "application/octet-stream"
    title, name = word(raw.get("title")), word(raw.get("name"))
    return SharedFile(
        file_id,
        _state(raw, media_type),
        name=name,
        title="" if title == name else title,
        media_type=media_type,
        user_id=word(raw.get("user")),
        url=word(raw.get("url_private_download")) or word(raw.get("url_private")),
        permalink=word(raw.get("permalink")),
        size_bytes=_number(raw.get("size")),
        created_s=_number(raw.get("created")) or _number(raw.get("timestamp")),
        version=f"{_number(raw.get('size'))}:{_number(raw.get('updated')) or _number(raw.get('timestamp'))}",
    )


def _state(raw: dict[str, Any], media_type: str) -> FileState:
    if raw.get("mode") == "tombstone" or raw.get("file_access") == "file_not_found":
        return FileState.DELETED
    if raw.get("mode") == "hidden_by_limit" or raw.get("file_access") == "access_denied":
        return FileState.HIDDEN
    if raw.get("is_external") is True or raw.get("mode") == "external":
        return FileState.EXTERNAL
    return FileState.NO_TEXT if media_type.startswith(_TYPES_WITHOUT_TEXT) else FileState.READABLE


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
