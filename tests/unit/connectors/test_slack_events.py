"""Slack's pushes: only fresh ones signed with the app's secret are read."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.slack import SlackConnector
from cortex.errors import InputError, Unauthenticated
from cortex.ports.connectors import WebhookEvent
from cortex.settings import settings
from tests.unit.connectors.slack_exports import connector

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
MESSAGE = {"type": "message", "channel": "C0GEN", "ts": "1772444000.000100", "text": "hi"}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Build a connector whose app has a signing secret."""
    monkeypatch.setenv("CORTEX_SLACK_SIGNING_SECRET", SECRET)
    settings.cache_clear()
    yield connector(tmp_path)
    settings.cache_clear()


def signed(body: bytes, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    """Sign a body as Slack does."""
    sent_at = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{sent_at}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": sent_at, "X-Slack-Signature": f"v0={digest}"}


def push(source: SlackConnector, **event: Any) -> WebhookEvent:
    body = json.dumps({"type": "event_callback", "event": event}).encode()
    return source.webhook(signed(body), body)


def test_the_signature_is_the_documented_one() -> None:
    """The example of Slack's documentation verifies, apart from its age."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    expected = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert signed(body, 1531420618)["X-Slack-Signature"] == expected


@pytest.mark.parametrize("name", [str.lower, str.upper, str], ids=["lower", "upper", "as-sent"])
def test_a_signed_push_is_read(source: SlackConnector, name: Callable[[str], str]) -> None:
    """A fresh signed message names its day, whatever the case of the headers."""
    body = json.dumps({"event": MESSAGE}).encode()
    headers = {name(header): value for header, value in signed(body).items()}
    assert source.webhook(headers, body).changed_ids == ("C0GEN/2026-03-02",)


@pytest.mark.parametrize(
    "made",  # in the test, minutes after these lines are read: each is refused for nothing but its own fault
    [
        dict,
        lambda: signed(b"other"),
        lambda: signed(b"{}", secret="not the secret"),
        lambda: signed(b"{}", at=time.time() - 400),
        lambda: signed(b"{}", at=time.time() + 400),
        lambda: {**signed(b"{}"), "X-Slack-Request-Timestamp": "now"},
        lambda: {**signed(b"{}"), "X-Slack-Request-Timestamp": "9" * 30},
        lambda: {**signed(b"{}"), "X-Slack-Signature": ""},
        lambda: {**signed(b"{}"), "X-Slack-Signature": "v0=é"},
    ],
    ids=[
        "unsigned",
        "other-body",
        "other-secret",
        "old",
        "ahead",
        "no-time",
        "huge-time",
        "blank",
        "not-ascii",
    ],
)
def test_other_pushes_are_refused(source: SlackConnector, made: Callable[[], dict[str, str]]) -> None:
    """Unsigned, forged, replayed or malformed pushes raise Unauthenticated."""
    with pytest.raises(Unauthenticated):
        source.webhook(made(), b"{}")


def test_without_a_secret_every_push_is_refused(tmp_path: Path) -> None:
    """An empty signing secret signs nothing."""
    with pytest.raises(Unauthenticated):
        connector(tmp_path).webhook(signed(b"{}", secret=""), b"{}")


def test_a_reply_changes_its_thread_and_the_day_of_its_root(source: SlackConnector) -> None:
    """A first reply takes its root out of the day, so that both are looked at again."""
    reply = {**MESSAGE, "ts": "1772530400.000200", "thread_ts": "1772444000.000100"}
    assert push(source, **reply).changed_ids == (
        "C0GEN/1772444000.000100",
        "C0GEN/2026-03-02",
        "C0GEN/2026-03-03",
    )


def test_edits_and_removals_name_what_they_touch(source: SlackConnector) -> None:
    """A changed or deleted message names the thread and the day it stands in."""
    reply = {"ts": "1772444100.000000", "thread_ts": "1772444000.000100"}
    changed = push(
        source,
        type="message",
        subtype="message_changed",
        channel="C0GEN",
        ts="1772700000.000000",
        message=reply,
    )
    deleted = push(
        source,
        type="message",
        subtype="message_deleted",
        channel="C0GEN",
        deleted_ts=MESSAGE["ts"],
        previous_message=MESSAGE,
    )
    assert "C0GEN/1772444000.000100" in changed.changed_ids
    assert "C0GEN/2026-03-02" in deleted.changed_ids


@pytest.mark.parametrize(
    "event", [{}, {"type": "reaction_added"}, {"type": "message"}, {"type": 7, "channel": []}], ids=str
)
def test_events_that_change_no_text_change_nothing(source: SlackConnector, event: dict[str, Any]) -> None:
    """Reactions, and events without a channel, name no item."""
    assert push(source, **event) == WebhookEvent()


@pytest.mark.parametrize("body", [b"", b"[", b"[" * 100_000, b"\xff"], ids=["empty", "cut", "deep", "bytes"])
def test_a_signed_body_that_is_no_json_is_refused(source: SlackConnector, body: bytes) -> None:
    """What cannot be read is an error with a code, signed or not."""
    with pytest.raises(InputError):
        source.webhook(signed(body), body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"type": "url_verification", "challenge": "3eZbrw"}, WebhookEvent(reply="3eZbrw")),
        ({"type": "url_verification", "challenge": ["x"]}, WebhookEvent()),
        (
            {"event_id": "Ev1", "event": {"type": "member_left_channel", "user": "U0", "channel": "G0SEC"}},
            WebhookEvent(changes_access=True, push_id="Ev1"),
        ),
        (
            {"event_id": "Ev2", "event": {**MESSAGE, "subtype": "channel_leave"}},
            WebhookEvent(changes_access=True, push_id="Ev2"),
        ),
        (
            {"event_id": "Ev3", "event": {**MESSAGE, "subtype": "channel_convert_to_private"}},
            WebhookEvent(("*",), push_id="Ev3"),
        ),
        ({"event_id": "Ev4", "event": {"type": "reaction_added"}}, WebhookEvent()),
        ({"event_id": "Ev5", "event": "message"}, WebhookEvent()),
    ],
    ids=["challenge", "no-challenge", "leaves", "leave-message", "closes", "reaction", "nonsense"],
)
def test_a_push_says_what_changes(
    source: SlackConnector, body: dict[str, Any], expected: WebhookEvent
) -> None:
    """A challenge is answered; who comes and goes changes access; a channel that closes concerns all in it."""
    content = json.dumps(body).encode()
    assert source.webhook(signed(content), content) == expected


def test_a_removed_message_names_its_files(source: SlackConnector) -> None:
    """The files of a message that is deleted or edited are looked at again with it."""
    before = {**MESSAGE, "files": [{"id": "F0PLAN"}]}
    event = push(source, type="message", subtype="message_deleted", channel="C0GEN", deleted_ts=MESSAGE["ts"],
                 previous_message=before, ts="1772444900.000000")  # fmt: skip
    assert "C0GEN/F0PLAN" in event.changed_ids
