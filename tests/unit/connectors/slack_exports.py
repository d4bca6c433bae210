"""Small Slack exports for tests, written file by file, and what a connector makes of them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connectors.slack import SlackConnector
from cortex.conversations import Conversation
from cortex.documents import Item
from cortex.ports.connectors import FetchFailure, Skipped, SourceConfig

TEAM = "T0ACME"
TS = "1772444000.000100"  # 2026-03-02


def user(user_id: str, name: str = "", **more: Any) -> dict[str, Any]:
    """Write an account of the workspace."""
    return {"id": user_id, "team_id": TEAM, "profile": {"display_name": name or user_id.title()}, **more}


def said(text: str, ts: str = TS, **more: Any) -> dict[str, Any]:
    """Write a message of Ana's."""
    return {"type": "message", "user": "U0ANA", "ts": ts, "text": text, **more}


def files(*messages: Any, **more: Any) -> dict[str, Any]:
    """Lay out an export with one public channel that holds these messages; more files by path."""
    channel = {"id": "C0GEN", "name": "general", "members": ["U0ANA"]}
    listed = {"users.json": [user("U0ANA", "Ana")], "channels.json": [channel]}
    return {**listed, "general/2026-03-02.json": list(messages), **more}


def write(folder: Path, content: Mapping[str, Any]) -> Path:
    """Write an export as a folder; bytes as they are, anything else as JSON."""
    for name, value in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return folder


def pack(path: Path, content: Mapping[str, Any]) -> Path:
    """Write an export as a zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in content.items():
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def connector(root: Path, **options: str) -> SlackConnector:
    """Build the connector of an export."""
    given = {"root": str(root), **options}
    return SlackConnector(SourceConfig("acme", "source-1", "slack", "test", options=given))


def items(root: Path, cursor: str = "") -> dict[str, Item]:
    """List an export's items by id."""
    return {found.external_id: found for found in connector(root).fetch(cursor) if isinstance(found, Item)}


def failures(root: Path) -> list[tuple[str, str]]:
    """List (id, code) of what an export's listing reports."""
    listed = connector(root).fetch("")
    return [(found.external_id, found.code) for found in listed if isinstance(found, FetchFailure)]


def left_out(root: Path) -> dict[str, int]:
    """Count by code what an export's listing leaves out on purpose."""
    return {found.code: found.n for found in connector(root).fetch("") if isinstance(found, Skipped)}


def conversation(item: Item) -> Conversation:
    """Read an item's content."""
    assert item.content is not None
    return Conversation.from_bytes(item.content)


def spoken(item: Item) -> list[tuple[str, str]]:
    """Return (speaker, text) of an item's turns."""
    return [(turn.speaker, turn.text) for turn in conversation(item).turns]


def text_of(root: Path) -> str:
    """Return everything that is said in an export."""
    said = [spoken(item) for item in items(root).values() if item.content is not None]
    return "\n".join(text for turns in said for _, text in turns)
