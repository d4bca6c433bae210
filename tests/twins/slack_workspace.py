"""A Slack workspace on loopback: an HTTP server that plays an export by the Web API, in the recorded shapes.

Every answer is a recorded payload of Slack's (`tests/fixtures/slack/recorded`) with the workspace's own values in it,
two entries a page, newest messages first. It refuses other tokens, and asks for pauses when told to.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

RECORDED = Path(__file__).parents[1] / "fixtures" / "slack" / "recorded"
TOKEN = "xoxb-loopback"
APP_TOKEN = "xapp-loopback"
_PAGE = 2
_KINDS = {"channels.json": {"is_private": False, "is_channel": True}, "groups.json": {"is_private": True},
          "mpims.json": {"is_mpim": True, "is_private": True}, "dms.json": {"is_im": True}}  # fmt: skip


def recorded(name: str) -> dict[str, Any]:
    """Load a recorded payload."""
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


@dataclass(slots=True)
class Workspace:
    """The lists and messages that the server plays; tests change them while it runs."""

    users: list[dict[str, Any]]
    channels: list[dict[str, Any]]
    members: dict[str, list[str]]
    messages: dict[str, list[dict[str, Any]]]
    usergroups: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)  # by id
    url: str = ""
    pauses: dict[str, list[str]] = field(default_factory=dict)  # method: Retry-After of its next calls
    errors: dict[str, str] = field(default_factory=dict)  # method, or method and channel: error
    statuses: dict[str, list[int]] = field(default_factory=dict)  # method: HTTP status of its next calls
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    posted: list[dict[str, Any]] = field(
        default_factory=list
    )  # by chat.*, and what went to an answer's own address
    socket_url: str = ""  # where apps.connections.open leads

    @classmethod
    def of_export(cls, root: Path) -> Workspace:
        """Read an unpacked export; a broken day says nothing, a channel without members in it refuses to tell them."""
        channels, members, messages = [], {}, {}
        for name, flags in _KINDS.items():
            for raw in json.loads((root / name).read_text()) if (root / name).is_file() else []:
                channels.append({**raw, **flags})
                members[raw["id"]] = raw.get("members", [])
                folder = root / (raw.get("name") or raw["id"])
                days = [_day(path) for path in sorted(folder.glob("*.json"))]
                messages[raw["id"]] = [message for day in days for message in day]
        files = {path.parent.name: path.read_bytes() for path in root.glob("__uploads/*/*")}
        made = cls(json.loads((root / "users.json").read_text()), channels, members, messages, files=files)
        made.errors = {
            f"conversations.members {raw['id']}": "channel_not_found"
            for raw in channels
            if "members" not in raw
        }
        return made

    def answer(self, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one call as Slack would."""
        error = self.errors.get(f"{method} {given.get('channel', '')}") or self.errors.get(method)
        if error:
            return {"ok": False, "error": error}
        match method:
            case "auth.test":
                who = {"team_id": "T0ACME", "user_id": "U0CORTEX", "bot_id": "B0CORTEX", "enterprise_id": ""}
                return {**recorded(method), "ok": True, **who, "url": "https://acme.slack.com/"}
            case "users.info":
                return self._one(method, "user", self.users, given["user"])
            case "conversations.info":
                return self._one(method, "channel", self.channels, given["channel"])
            case "chat.postMessage" | "chat.postEphemeral":
                self.posted.append({"method": method, **given})
                return {"ok": True, "channel": given["channel"], "ts": f"1800000000.{len(self.posted):06}"}
            case "apps.connections.open":
                return {"ok": True, "url": self.socket_url}
            case "users.list":
                return self._page(method, "members", self.users, given)
            case "conversations.list":
                return self._page(method, "channels", self.channels, given)
            case "conversations.members":
                return self._page(method, "members", self.members[given["channel"]], given)
            case "usergroups.list":
                return {**recorded(method), "ok": True, "usergroups": self.usergroups}
            case "conversations.history":
                return self._page("MessagePayload", "messages", self._history(given), given)
            case "conversations.replies":
                thread = self._thread(given["channel"], given["ts"])
                if not thread:
                    return {"ok": False, "error": "thread_not_found"}
                return self._page("MessagePayload", "messages", thread, given)
        return {"ok": False, "error": "unknown_method"}

    def show_files(self, origin: str) -> None:
        """Give every file in a message its address at this server."""
        for raw in (raw for messages in self.messages.values() for raw in messages):
            for file in raw.get("files", []):
                file["url_private"] = f"{origin}/files/{file['id']}"

    def _history(self, given: Mapping[str, str]) -> list[dict[str, Any]]:
        """Give roots and single messages, newest first; replies are in their threads alone."""
        oldest = float(given.get("oldest", 0))
        shown = [
            {**raw, **self._thread_state(given["channel"], raw)}
            for raw in self.messages[given["channel"]]
            if raw.get("thread_ts", raw["ts"]) == raw["ts"]
            and oldest < float(raw["ts"]) <= float(given.get("latest", "inf"))
        ]
        return sorted(shown, key=lambda raw: float(raw["ts"]), reverse=True)

    def _thread(self, channel_id: str, ts: str) -> list[dict[str, Any]]:
        return [raw for raw in self.messages[channel_id] if ts in (raw["ts"], raw.get("thread_ts"))]

    def _thread_state(self, channel_id: str, raw: dict[str, Any]) -> dict[str, Any]:
        replies = [each["ts"] for each in self._thread(channel_id, raw["ts"]) if each["ts"] != raw["ts"]]
        return (
            {"thread_ts": raw["ts"], "reply_count": len(replies), "latest_reply": max(replies)}
            if replies
            else {}
        )

    def _one(self, name: str, key: str, entries: list[dict[str, Any]], entry_id: str) -> dict[str, Any]:
        shape = recorded(name)
        found = [entry for entry in entries if entry["id"] == entry_id]
        if not found:
            return {"ok": False, "error": f"{key}_not_found"}
        # What the recording masks as one empty entry is an empty list in a workspace that shares nothing.
        template = {each: [] if value == [""] else value for each, value in shape[key].items()}
        template |= {each: [] for each in template if each.endswith("team_ids")} | {"enterprise_user": None}
        return {"ok": True, key: _filled({**template, "context_team_id": "T0ACME"}, found[0])}

    def _page(self, name: str, key: str, entries: list[Any], given: Mapping[str, str]) -> dict[str, Any]:
        shape = recorded(name)
        at = int(given.get("cursor") or 0)
        template = shape["event"] if name == "MessagePayload" else shape[key][0]
        page = [
            _filled(template, each) if isinstance(each, dict) else each for each in entries[at : at + _PAGE]
        ]
        following = str(at + _PAGE) if at + _PAGE < len(entries) else ""
        base = {} if name == "MessagePayload" else shape
        return {**base, "ok": True, key: page, "response_metadata": {"next_cursor": following}}


def _day(path: Path) -> list[dict[str, Any]]:
    try:
        return list(json.loads(path.read_text()))
    except ValueError:
        return []


def _filled(template: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Put an entry's own values into a recorded shape; a message has no profile or name beside its account's."""
    return {**template, **entry}


@contextmanager
def serving(workspace: Workspace) -> Iterator[Workspace]:
    """Serve a workspace on a free port of loopback; its `url` is set meanwhile."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536  # head and body in one packet: two would wait for an acknowledgement in between

        def do_POST(self) -> None:
            address = urlsplit(self.path)
            method = address.path.rpartition("/")[2]
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            is_json = (self.headers["Content-Type"] or "").startswith("application/json")
            given = json.loads(body) if is_json else dict(parse_qsl(f"{address.query}&{body}"))
            workspace.calls.append((method, given))
            token = APP_TOKEN if method == "apps.connections.open" else TOKEN
            if self.path.startswith("/answers/"):  # an address that came with a command or a button
                workspace.posted.append({"method": "respond", **given})
                self._send_bytes(200, b"ok", {"Content-Type": "text/plain"})
            elif self.headers["Authorization"] != f"Bearer {token}":
                self._send(200, {"ok": False, "error": "invalid_auth"})
            elif pauses := workspace.pauses.get(method):
                self._send(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": pauses.pop(0)})
            elif statuses := workspace.statuses.get(method):
                self._send(statuses.pop(0), {"ok": False})
            else:
                self._send(200, workspace.answer(method, given))

        def do_GET(self) -> None:
            workspace.calls.append(("GET", {"path": self.path}))
            content = workspace.files.get(self.path.rpartition("/")[2])
            if statuses := workspace.statuses.get("GET"):
                self._send(statuses.pop(0), {"ok": False}, {"Retry-After": "3"})
            elif self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._send_bytes(200, b"<html>Sign in", {"Content-Type": "text/html; charset=utf-8"})
            elif content is None:
                self._send(404, {"ok": False})
            else:
                self._send_bytes(200, content, {"Content-Type": "application/octet-stream"})

        def _send(self, status: int, body: dict[str, Any], headers: Mapping[str, str] = {}) -> None:
            self._send_bytes(
                status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
            )

        def _send_bytes(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        workspace.url = f"http://127.0.0.1:{server.server_port}/api/"
        workspace.show_files(f"http://127.0.0.1:{server.server_port}")
        try:
            yield workspace
        finally:
            server.shutdown()
            thread.join()
