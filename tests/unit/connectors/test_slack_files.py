"""Files shared in Slack: which become documents, with whose access, and how their bytes are had, or why not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.slack import SlackConnector
from connectors.slack_api import Clock
from connectors.slack_download import Downloads
from cortex.documents import Item, ParsedBody
from cortex.edges import EdgeKind, EdgeSpace
from cortex.errors import Unparsable
from cortex.ports.connectors import SourceConfig
from cortex.settings import settings
from data_jobs.parsers.registry import parse
from tests.twins.slack_workspace import TOKEN, Workspace, serving
from tests.unit.connectors.slack_exports import (
    TS,
    connector,
    failures,
    files,
    items,
    left_out,
    pack,
    said,
    write,
)

LATER = "1772450000.000000"
PLAN = b"# Plan\n\nWe move the depot to Nyhavna in May."


def shared(file_id: str = "F0PLAN", **more: Any) -> dict[str, Any]:
    """Write a file as a message shows it."""
    named = {"name": "plan.md", "title": "plan.md", "mimetype": "text/markdown", "mode": "hosted"}
    return {"id": file_id, "user": "U0ANA", "size": len(PLAN), "timestamp": 1772443990, **named, **more}


def one_file(root: Path, **more: Any) -> Path:
    """Write an export whose one message shares one file that lies beside it."""
    message = said("See the plan", files=[shared(**more)])
    return write(root, files(message, **{"general/attachments/F0PLAN-plan.md": PLAN}))


def test_a_file_is_a_document_of_its_own(tmp_path: Path) -> None:
    """A file in the archive is listed unread, under its conversation, and read when it is wanted; a zip and a folder alike."""
    content = files(said("See", files=[shared()]), **{"__uploads/F0PLAN/plan.md": PLAN})
    for root in (pack(tmp_path / "export.zip", content), write(tmp_path / "export", content)):
        item = items(root)["C0GEN/F0PLAN"]
        assert (item.content, item.path, item.media_type, item.size_bytes) == (
            None,
            None,
            "text/markdown",
            len(PLAN),
        )
        assert connector(root).read(item, 1_000) == PLAN
        assert (failures(root), left_out(root)) == ([], {})


def test_its_document_says_what_slack_says(tmp_path: Path) -> None:
    """Title, author, dates and address are Slack's; a title that only repeats the name gives way to the file's own."""
    root = one_file(
        tmp_path, title="Moving the depot", permalink="https://acme.slack.com/files/U0ANA/F0PLAN/plan.md"
    )
    item = items(root)["C0GEN/F0PLAN"]
    document = connector(root).normalize(item, parse(PLAN, "plan.md", "text/markdown"), "0" * 64)
    assert (document.title, document.author) == ("Moving the depot", "Ana")
    assert document.permalink == "https://acme.slack.com/files/U0ANA/F0PLAN/plan.md"
    assert document.created_at is not None
    assert int(document.created_at.timestamp()) == 1772443990
    item = items(one_file(tmp_path / "other"))["C0GEN/F0PLAN"]
    assert connector(root).normalize(item, parse(PLAN, "plan.md", ""), "0" * 64).title == "Plan"
    assert item.meta["permalink"] == "https://slack.com/archives/C0GEN/p1772444000000100"


def test_a_thread_links_to_its_files(tmp_path: Path) -> None:
    """The turn that shares a file has an edge to it, which the file's name answers; a picture has none."""
    root = write(tmp_path, files(said("Both", files=[shared(), shared("F0PIC", mimetype="image/png")])))
    source, listed = connector(root), items(root)
    day = listed["C0GEN/2026-03-02"]
    assert day.content is not None
    parsed = parse(day.content, "", day.media_type)
    (edge,) = source.normalize(day, parsed, "0" * 64).edges
    assert (edge.kind, edge.space, edge.key) == (EdgeKind.EMBED, EdgeSpace.ATTACHMENT, "C0GEN/F0PLAN")
    assert parsed.body.encode()[edge.byte_start : edge.byte_end].decode().startswith("Ana: Both")
    (name,) = source.normalize(listed["C0GEN/F0PLAN"], ParsedBody("", ()), "0" * 64).names
    assert (name.space, name.key) == (edge.space, edge.key)


def test_a_file_has_the_access_of_each_conversation_it_is_shared_in(tmp_path: Path) -> None:
    """Shared in a private channel and again in a public one it is two documents, each for that conversation's people."""
    secret = {"id": "G0SEC", "name": "secret", "members": ["U0ANA"]}
    content = files(
        said("See", files=[shared()]), **{"groups.json": [secret], "__uploads/F0PLAN/plan.md": PLAN}
    )
    content["secret/2026-03-02.json"] = [said("Look", files=[shared()])]
    root = write(tmp_path, content)
    source = connector(root)
    seen = {
        item.external_id: [grant.name for grant in source.acls(item).viewers]
        for item in items(root).values()
        if item.content is None
    }
    assert seen == {"C0GEN/F0PLAN": ["slack:T0ACME"], "G0SEC/F0PLAN": ["slack:G0SEC"]}


def test_a_file_of_a_quoted_message_is_not_opened(tmp_path: Path) -> None:
    """A message shared from elsewhere brings its text, as Slack shows it; its files stay with their own conversation."""
    quoted = {"text": "Look here", "files": [shared("F0SECRET")], "from_url": "https://acme.slack.com/x"}
    root = write(tmp_path, files(said("See", attachments=[quoted]), **{"__uploads/F0SECRET/s.md": PLAN}))
    assert list(items(root)) == ["C0GEN/2026-03-02"]


@pytest.mark.parametrize(
    ("more", "failed", "skipped"),
    [
        ({"mode": "tombstone"}, [], {"file.deleted": 1}),
        ({"mode": "hidden_by_limit"}, [("C0GEN/F0PLAN", "file.hidden")], {}),
        ({"file_access": "access_denied"}, [("C0GEN/F0PLAN", "file.hidden")], {}),
        ({"is_external": True, "mode": "external"}, [], {"file.external": 1}),
        ({"mimetype": "video/mp4"}, [], {"file.no_text": 1}),
        ({"id": "../../etc/passwd"}, [], {}),
        ({"id": None}, [], {}),
    ],
    ids=["deleted", "plan-limit", "denied", "elsewhere", "film", "path", "no-id"],
)
def test_what_is_no_document_says_why(
    tmp_path: Path, more: dict[str, Any], failed: list[tuple[str, str]], skipped: dict[str, int]
) -> None:
    """A file out of reach is a failure of its own id; deleted ones, links to other services and film are left out."""
    root = write(tmp_path, files(said("See", files=[shared(**{"file_id": "F0PLAN", **more})])))
    assert (list(items(root)), failures(root), left_out(root)) == (["C0GEN/2026-03-02"], failed, skipped)


def test_a_removed_message_takes_its_files_along(tmp_path: Path) -> None:
    """A file is there as long as a message shares it; shared again later, it comes where that message stands."""
    first, again = said("Once", files=[shared()]), said("Twice", LATER, files=[shared()])
    gone = {"type": "message", "subtype": "message_deleted", "ts": LATER, "deleted_ts": LATER}
    assert (
        items(write(tmp_path / "two", files(first, again)))["C0GEN/F0PLAN"].meta["rank_us"]
        == "1772450000000000"
    )
    assert (
        items(write(tmp_path / "one", files(first, again, gone)))["C0GEN/F0PLAN"].meta["rank_us"] < "17724500"
    )
    gone["deleted_ts"] = TS
    root = write(tmp_path / "none", files(first, gone, said("Still here", LATER)))
    assert list(items(root)) == ["C0GEN/2026-03-02"]


def test_a_new_version_is_seen_without_reading(tmp_path: Path) -> None:
    """The fingerprint follows size and time of change, and nothing else."""
    prints = [
        items(one_file(tmp_path / str(n), **more))["C0GEN/F0PLAN"].meta["fingerprint"]
        for n, more in enumerate([{}, {"title": "Renamed"}, {"updated": 1772443999}, {"size": 45}])
    ]
    assert prints[0] == prints[1]
    assert len({*prints}) == 3


def reason(source: SlackConnector, item: Item, max_bytes: int = 1_000) -> str:
    """Return the code with which a file's content is refused."""
    with pytest.raises(Unparsable) as caught:
        source.read(item, max_bytes)
    assert TOKEN not in caught.value.message
    return caught.value.error_code


def test_a_file_that_the_export_lacks_says_what_to_do(tmp_path: Path) -> None:
    """Without content nobody is asked unless the operator says so, even if the address bears a token."""
    root = write(
        tmp_path, files(said("See", files=[shared(url_private="https://files.slack.com/x/plan.md?t=xoxe-1")]))
    )
    assert reason(connector(root), items(root)["C0GEN/F0PLAN"]) == "file.not_exported"


def test_a_large_file_is_refused_in_an_export(tmp_path: Path) -> None:
    """A file over the limit is not taken, whatever its message says of its size."""
    root = one_file(tmp_path, size=1)
    assert reason(connector(root), items(root)["C0GEN/F0PLAN"], 42) == "document.too_large"


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Workspace]:
    """A workspace on loopback with one file in it, and the token set."""
    monkeypatch.setenv("CORTEX_SLACK_TOKEN", TOKEN)
    settings.cache_clear()
    root = write(
        tmp_path / "served", files(said("See", files=[shared()]), **{"__uploads/F0PLAN/plan.md": PLAN})
    )
    with serving(Workspace.of_export(root)) as served:
        yield served
    settings.cache_clear()


def by_api(workspace: Workspace) -> SlackConnector:
    """Build the connector of a workspace on loopback."""
    return SlackConnector(SourceConfig("acme", "source-1", "slack", "test", options={"url": workspace.url}))


def listed(workspace: Workspace) -> Item:
    """List the workspace's one file."""
    found = [each for each in by_api(workspace).fetch("") if isinstance(each, Item)]
    return next(item for item in found if item.external_id == "C0GEN/F0PLAN")


def test_a_workspace_gives_files_to_its_token(workspace: Workspace) -> None:
    """Listing downloads nothing; a file is had from its address with the token."""
    item = listed(workspace)
    assert [call for call in workspace.calls if call[0] == "GET"] == []
    assert by_api(workspace).read(item, 1_000) == PLAN


def test_a_download_ends_at_the_limit(workspace: Workspace) -> None:
    """A file that is longer than it says is dropped as soon as the limit is passed."""
    assert reason(by_api(workspace), listed(workspace), 42) == "document.too_large"


def test_what_slack_does_not_give_is_listed_with_the_reason(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is gone, a sign-in page in place of a file, and a redirect each have a code."""
    item = listed(workspace)
    workspace.statuses["GET"] = [302]
    assert reason(by_api(workspace), item) == "file.refused"
    monkeypatch.setenv("CORTEX_SLACK_TOKEN", "xoxb-of-another-app")
    settings.cache_clear()
    assert reason(by_api(workspace), item) == "file.refused"
    monkeypatch.setenv("CORTEX_SLACK_TOKEN", TOKEN)
    settings.cache_clear()
    workspace.files.clear()
    assert reason(by_api(workspace), item) == "file.gone"


def test_a_busy_slack_is_asked_again(workspace: Workspace) -> None:
    """After 429 and 503 the download rests as long as it is told, then goes on; a Slack that stays busy is a reason."""
    slept: list[float] = []
    downloads = Downloads(TOKEN, workspace.url, Clock(sleep=slept.append))
    url = f"{workspace.url.removesuffix('/api/')}/files/F0PLAN"
    workspace.statuses["GET"] = [429, 503]
    assert downloads.get(url, "text/markdown", 1_000) == PLAN
    assert slept == [3.0, 3.0]
    workspace.statuses["GET"] = [503] * 9
    with pytest.raises(Unparsable) as caught:
        downloads.get(url, "text/markdown", 1_000)
    assert caught.value.error_code == "file.unreachable"
    downloads.close()


def test_a_machine_without_a_network_does_not_wait_for_every_file(workspace: Workspace) -> None:
    """After three silences in a row nobody asks any more: a thousand files cost no more than three."""
    downloads = Downloads(TOKEN, "http://127.0.0.1:1/api/", Clock(sleep=lambda seconds: None))
    for _ in range(1_000):
        with pytest.raises(Unparsable):
            downloads.get("http://127.0.0.1:1/files/F0PLAN", "", 1_000)
    downloads.close()


@pytest.mark.parametrize(
    "url",
    [
        "https://files.slack.com.evil.example/x",
        "https://evil.example/files.slack.com",
        "https://evilslack.com/x",
        "http://files.slack.com/x",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "https://files.slack.com@evil.example/x",
        "http://[",
        "",
    ],
)
def test_the_token_goes_to_slack_alone(workspace: Workspace, url: str) -> None:
    """An address in a message is anybody's word: only Slack's hosts, encrypted, and the API's own are asked."""
    downloads = Downloads(TOKEN, workspace.url)
    with pytest.raises(Unparsable) as caught:
        downloads.get(url, "", 1_000)
    assert (caught.value.error_code, [call for call in workspace.calls if call[0] == "GET"]) == (
        "file.foreign",
        [],
    )
    downloads.close()


def test_a_file_without_an_address_is_asked_for(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the message does not say where its file is, the API does; what the API refuses is a reason, not an end."""
    item = listed(workspace)
    bare = Item(item.external_id, item.media_type, meta={**item.meta, "url": ""})
    assert reason(by_api(workspace), bare) == "file.refused"
    answer = Workspace.answer
    found = {"ok": True, "file": shared(url_private=item.meta["url"])}
    monkeypatch.setattr(
        Workspace,
        "answer",
        lambda self, method, given: found if method == "files.info" else answer(self, method, given),
    )
    assert by_api(workspace).read(bare, 1_000) == PLAN
    assert json.dumps(workspace.calls).count("files.info") >= 2


def test_an_export_with_download_asks_slack_and_nobody_else(tmp_path: Path) -> None:
    """With `download` an address that is not Slack's is refused all the same."""
    root = write(tmp_path, files(said("See", files=[shared(url_private="https://evil.example/plan.md?t=1")])))
    source = connector(root, download="yes")
    assert reason(source, items(root)["C0GEN/F0PLAN"]) == "file.foreign"
