"""Nothing visible is lost: recorded payloads of Slack, with a word of our own in every field that a reader sees."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.slack_events import read_event
from connectors.slack_files import read_files
from connectors.slack_messages import Notes, read_messages
from connectors.slack_model import Channel, ChannelKind, Workspace
from connectors.slack_text import Renderer
from tests.unit.connectors.slack_exports import failures, items, left_out, text_of

DATA = Path(os.environ.get("CORTEX_EVAL_DATA", Path(__file__).parents[4] / "shared" / "data")) / "connectors"
EVENTS = DATA / "slack_sdk_samples" / "events"
ARCHIVE = DATA / "slack_export_archive" / "testarchive.zip"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not ARCHIVE.is_file(), reason="the recorded payloads are not on this machine"),
]

# The fields whose text a reader sees. A fallback stands for what cannot be shown; the rest are ids and machinery.
_SEEN = frozenset(
    {"text", "title", "name", "pretext", "author_name", "author_subname", "service_name", "footer", "alt_text", "alt_txt",
     "plain_text", "preview", "preview_plain_text", "subject", "comment", "content", "description", "filename"}
)  # fmt: skip
# What shows only after a click, or never.
_UNSEEN_OBJECTS = frozenset(
    {"confirm", "options", "option_groups", "bot_profile", "metadata", "previous_message", "list_view"}
)


def _marked(node: Any, key: str, marks: list[str]) -> Any:
    """Copy a payload with a unique word in every blank string that is shown."""
    if isinstance(node, dict):
        return {
            name: value if name in _UNSEEN_OBJECTS else _marked(value, name, marks)
            for name, value in node.items()
        }
    if isinstance(node, list):
        return [_marked(each, key, marks) for each in node]
    if node == "" and key in _SEEN:
        marks.append(f"visible{len(marks)}{key.replace('_', '')}")
        return marks[-1]
    return node


def _messages(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Find the messages in an event: itself, or what it changes."""
    for raw in (event, event.get("message")):
        if isinstance(raw, dict) and isinstance(raw.get("text"), str):
            # The root of a broadcast reply is a message of its own; a channel's new name stands in the text.
            yield {name: value for name, value in raw.items() if name not in ("root", "name")}


def _text(raw: dict[str, Any]) -> str:
    channel = Channel("C0", "general", ChannelKind.PUBLIC, None)
    given = {**raw, "ts": "1772444000.000100", "thread_ts": None, "subtype": None}
    said = read_messages([("payload", given)], Renderer(Workspace(), channel), Notes())
    return "\n".join(one.text for one in said.values())


@pytest.mark.parametrize("path", sorted(EVENTS.glob("Message*.json")), ids=lambda path: path.stem)
def test_every_visible_word_of_a_recorded_message_is_in_its_text(path: Path) -> None:
    """Text, blocks, attachments, files: each blank that a reader would see is filled with a word, and found again."""
    event = json.loads(path.read_text())["event"]
    for raw in _messages(event):
        marks: list[str] = []
        text = _text(_marked(raw, "", marks))
        assert [mark for mark in marks if mark not in text] == []
        assert marks


def test_every_message_of_the_recorded_archive_is_indexed_or_counted() -> None:
    """Each message's words are in some item, or it is one of the eleven that say only who or what came."""
    said = re.sub(r"\W+", "", text_of(ARCHIVE))
    lost = 0
    with zipfile.ZipFile(ARCHIVE) as archive:
        days = [
            json.loads(archive.read(name))
            for name in archive.namelist()
            if name.count("/") == 1 and name.endswith(".json")
        ]
    for message in (message for day in days for message in day):
        words = re.findall(r"\w{3,}", re.sub(r"<[^>]*>|&\w+;", " ", message["text"]))
        lost += any(word not in said for word in words)
    assert (sum(map(len, days)), lost) == (158, 11)
    assert failures(ARCHIVE) == []
    addresses = [item.meta["url"] for item in items(ARCHIVE).values() if item.content is None]
    assert (len(addresses), {url[:24] for url in addresses}) == (3, {"https://files.slack.com/"})
    assert sum(n for code, n in left_out(ARCHIVE).items() if code.startswith("message.")) == 11


SAMPLES = sorted((DATA / "slack_sdk_samples").glob("*/*.json"))


def test_every_recorded_payload_is_read_or_refused_with_a_reason() -> None:
    """Whatever Slack sends, taken for a message, becomes a turn, is counted by kind, or is reported: nothing is lost."""
    assert len(SAMPLES) > 200
    channel = Channel("C0", "general", ChannelKind.PUBLIC, None)
    renderer = Renderer(Workspace(), channel)
    for path in SAMPLES:
        payload = json.loads(path.read_text())
        for raw in (payload, payload.get("event"), payload.get("message")):
            for given in (raw, {**raw, "ts": "1772444000.000100"} if isinstance(raw, dict) else raw):
                notes = Notes()
                said = read_messages([(path.stem, given)], renderer, notes)
                found = (len(said), notes.skipped.total(), len(notes.broken))
                assert sum(found) == 1, (path.name, found)
                assert all(reason for _, reason in notes.broken)


def test_every_recorded_push_is_understood() -> None:
    """Every event of Slack's is read; those about messages, members and channels name what they change."""
    acted: dict[str, str] = {}
    for path in sorted(EVENTS.glob("*.json")):
        payload = json.loads(path.read_text())
        for masked in (payload["event"], payload["event"].get("message")):
            if isinstance(masked, dict):
                masked.update(channel="C0GEN", ts="1772444000.000100")
        event = read_event(json.dumps(payload).encode())
        if event.changed_ids or event.changes_access:
            acted[path.stem.removesuffix("Payload")] = (
                "access" if event.changes_access else "all" if "*" in event.changed_ids else "items"
            )
    assert {name for name, what in acted.items() if what == "all"} == {
        *(
            "ChannelDeleted",
            "ChannelRename",
            "ChannelShared",
            "ChannelUnshared",
            "GroupDeleted",
            "GroupRename",
        ),
    }
    assert {name for name, what in acted.items() if what == "access"} == {
        *("MemberJoinedChannel", "MemberLeftChannel", "TeamJoin", "UserChange", "ChannelLeft", "GroupLeft"),
        *("MessageChannelJoin", "MessageChannelLeave"),
        *("SubteamCreated", "SubteamUpdated", "SubteamMembersChanged"),
    }
    assert {name for name, what in acted.items() if what == "items"} >= {
        *("Message", "MessageBot", "MessageChanged", "MessageDeleted", "MessageFileShare", "AppMention"),
        *("MessageMe", "MessageReplied", "MessageThreadBroadcast"),
    }


def test_every_recorded_file_is_read() -> None:
    """The files of Slack's own samples, masked as they are, have ids once they are filled in, and a state."""
    for name in ("files.info", "files.list"):
        given = json.loads((DATA / "slack_sdk_samples" / "api" / f"{name}.json").read_text())
        for raw in given.get("files") or [given["file"]]:
            assert read_files({"file": raw}) == ()  # masked: it has no id
            (file,) = read_files({"file": {**raw, "id": "F0PLAN", "is_external": False}})
            assert (file.is_readable, file.size_bytes, file.version) == (True, 123, "123:123")
