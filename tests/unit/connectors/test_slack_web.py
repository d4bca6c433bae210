"""Slack by its Web API, against a server on loopback that answers in the recorded shapes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from connectors import slack_api
from connectors.slack import SlackConnector
from connectors.slack_api import PAGE_SIZE, SlackApi
from cortex.documents import Item
from cortex.errors import Busy, Corrupt, CortexError, Misconfigured, Unavailable
from cortex.ports.connectors import FetchFailure, SourceConfig
from cortex.settings import settings
from tests.twins.slack_workspace import TOKEN, Workspace, serving
from tests.unit.connectors.slack_exports import connector, said, spoken

EXPORT = Path(__file__).parents[2] / "fixtures" / "slack" / "export"


@dataclass(slots=True)
class FakeClock:
    """Time that passes only where the client sleeps."""

    at: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Let the client's time pass at once."""
    fake = FakeClock()
    monkeypatch.setattr(slack_api, "Clock", lambda: fake)
    return fake


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Copy the recorded export without its broken day."""
    root = shutil.copytree(EXPORT, tmp_path / "export")
    (root / "general" / "2026-03-07.json").unlink()
    return root


@pytest.fixture
def workspace(export: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """Serve the recorded export as a workspace whose token is set."""
    monkeypatch.setenv("CORTEX_SLACK_TOKEN", TOKEN)
    settings.cache_clear()
    with serving(Workspace.of_export(export)) as served:
        yield served
    settings.cache_clear()


def web(workspace: Workspace) -> SlackConnector:
    options = {"url": workspace.url}
    return SlackConnector(SourceConfig("acme", "source-1", "slack", "test", options=options))


def items(source: SlackConnector, cursor: str = "") -> list[Item]:
    return [found for found in source.fetch(cursor) if isinstance(found, Item)]


def elsewhere(item: Item) -> Item:
    """Leave out where a file's content is to be had: that is where the two ways differ."""
    return replace(
        item, meta={name: value for name, value in item.meta.items() if name not in ("place", "url")}
    )


def failures(source: SlackConnector) -> set[tuple[str, str]]:
    return {(found.external_id, found.code) for found in source.fetch("") if isinstance(found, FetchFailure)}


def test_the_api_and_the_export_are_the_same_source(workspace: Workspace, export: Path) -> None:
    """One workspace read both ways gives the same items, access lists, groups and reports, page by page."""
    by_api, by_export = web(workspace), connector(export, domain="acme")
    assert [elsewhere(item) for item in items(by_api)] == [elsewhere(item) for item in items(by_export)]
    assert list(by_api.memberships()) == list(by_export.memberships())
    assert failures(web(workspace)) == failures(connector(export))
    assert max(given.get("limit", "") for _, given in workspace.calls) == str(PAGE_SIZE)


def test_a_late_reply_brings_back_its_thread_alone(workspace: Workspace) -> None:
    """After a cursor, an old thread with a new reply is listed whole, and nothing else is."""
    before = items(web(workspace))
    workspace.messages["C0GEN"].append(
        said("It slipped to May.", "1772900000.000000", thread_ts="1772444000.000200")
    )
    workspace.calls.clear()
    (again,) = items(web(workspace), web(workspace).cursor(before))
    assert again.external_id == "C0GEN/1772444000.000200"
    assert [text for _, text in spoken(again)][-1] == "It slipped to May."
    assert len(spoken(again)) == 4


def test_an_edited_reply_within_the_tail_is_found(workspace: Workspace) -> None:
    """An edit changes no date of its root: threads active shortly before the cursor are read again."""
    cursor = web(workspace).cursor(items(web(workspace)))
    reply = workspace.messages["C0GEN"][2]
    reply.update(text="On 15 April.", edited={"user": "U0BEN", "ts": "1772900000.000000"})
    (again,) = items(web(workspace), cursor)
    assert ("Ben Okafor", "On 15 April.") in spoken(again)


def test_old_threads_at_rest_cost_no_call(workspace: Workspace) -> None:
    """Before the tail, neither history nor replies are asked for."""
    workspace.messages["G0SEC"].append(said("Two months later", "1778000000.000000"))
    cursor = web(workspace).cursor(items(web(workspace)))
    workspace.calls.clear()
    assert items(web(workspace), cursor) == []
    assert [given for method, given in workspace.calls if method == "conversations.replies"] == []


def test_two_passes_of_a_run_read_the_workspace_once(workspace: Workspace) -> None:
    """The survey and the load see one state; a third listing reads anew."""
    source = web(workspace)
    first, n_calls = items(source), len(workspace.calls)
    workspace.messages["C0GEN"].append(said("News", "1772900000.000000"))
    assert (items(source), len(workspace.calls)) == (first, n_calls)
    assert len(items(source)) == len(first) + 1


def test_leaving_a_channel_removes_an_edge_and_changes_no_list(workspace: Workspace) -> None:
    """Who leaves a private channel is in its group no more; the channel's access list stays as it is."""
    source = web(workspace)
    before = {item.external_id: source.acls(item) for item in items(source)}
    workspace.members["G0SEC"].remove("U0YUKI")
    later = web(workspace)
    assert {item.external_id: later.acls(item) for item in items(later)} == before
    assert [edge.member.name for edge in later.memberships() if edge.group_name == "slack:G0SEC"] == [
        "ana@acme.example"
    ]


@pytest.mark.parametrize("error", ["not_in_channel", "channel_not_found"])
def test_a_channel_that_cannot_be_read_is_out_of_sight(workspace: Workspace, error: str) -> None:
    """Without the app in it a channel is reported under its id, and the others are loaded."""
    workspace.errors["conversations.history C0DES"] = error
    assert ("C0DES", "channel.unreadable") in failures(web(workspace))
    assert "C0GEN/2026-03-02" in {item.external_id for item in items(web(workspace))}


def test_a_missing_scope_for_user_groups_costs_their_names_alone(workspace: Workspace) -> None:
    """Without usergroups:read the load goes on and says so."""
    workspace.errors["usergroups.list"] = "missing_scope"
    assert ("usergroups", "slack.refused") in failures(web(workspace))


def test_a_pause_that_slack_asks_for_is_kept(workspace: Workspace, clock: FakeClock) -> None:
    """After 429 the method rests as long as Retry-After says, then the listing goes on without loss."""
    workspace.pauses = {"conversations.history": ["7", "11"]}
    assert len(items(web(workspace))) == 8
    assert [round(each) for each in clock.slept if round(each) in (7, 11)] == [7, 11]


def test_methods_have_a_bucket_each_and_clients_share_it(workspace: Workspace, clock: FakeClock) -> None:
    """Twenty calls a minute of one method, whichever client makes them; another method has its own."""
    clients = [SlackApi(workspace.url, TOKEN) for _ in range(2)]
    for n in range(42):
        clients[n % 2].call("users.list")
    assert clock.at - 1_000.0 == pytest.approx(120.0, abs=3.1)
    before = clock.at
    clients[0].call("conversations.history", channel="C0GEN")
    assert clock.at == before
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    ("setup", "error", "code"),
    [
        ({"pauses": {"users.list": ["1"] * 9}}, Busy, "slack.busy"),
        ({"statuses": {"users.list": [500] * 9}}, Unavailable, "slack.unavailable"),
        ({"errors": {"auth.test": "token_revoked"}}, Misconfigured, "slack.refused"),
        ({"errors": {"users.list": "missing_scope"}}, Misconfigured, "slack.refused"),
        ({"errors": {"conversations.list": "fatal_error"}}, Unavailable, "slack.unavailable"),
        ({"errors": {"conversations.list": "invalid_arguments"}}, Corrupt, "slack.unexpected"),
    ],
    ids=["always-busy", "down", "revoked", "scope", "broken", "unexpected"],
)
def test_what_does_not_pass_stops_the_listing(
    workspace: Workspace, setup: dict[str, object], error: type[CortexError], code: str
) -> None:
    """A workspace that stays busy, is down or refuses the token is an error with a code, before anything is listed."""
    for name, value in setup.items():
        setattr(workspace, name, value)
    with pytest.raises(error) as caught:
        items(web(workspace))
    assert caught.value.error_code == code
    assert TOKEN not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("error", ["file_not_found", "unknown_method", "an error of tomorrow"])
def test_an_error_that_does_not_pass_is_said_at_once(
    workspace: Workspace, clock: FakeClock, error: str
) -> None:
    """What asking again cannot change is asked once, and is no outage; nor does it say that a channel is gone."""
    workspace.errors["files.info"] = error
    api = SlackApi(workspace.url, TOKEN)
    with pytest.raises(Corrupt) as caught:
        api.call("files.info", file="F0PLAN")
    api.close()
    assert (caught.value.error_code, caught.value.fields["says"]) == ("slack.unexpected", error)
    assert clock.slept == []
    assert [call for call in workspace.calls if "files.info" in str(call)] == workspace.calls


def test_a_hiccup_is_tried_again(workspace: Workspace) -> None:
    """One failed answer costs a short wait and nothing else."""
    workspace.statuses = {"conversations.list": [502], "conversations.members": [503]}
    assert len(items(web(workspace))) == 8


def test_a_page_that_leads_to_itself_ends(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor given twice is a fault of the server, not an endless listing."""
    page = {"ok": True, "members": [], "response_metadata": {"next_cursor": "again"}}
    monkeypatch.setattr(Workspace, "answer", lambda self, method, given: page)
    with pytest.raises(Corrupt):
        items(web(workspace))


@pytest.mark.parametrize("url", ["http://slack.com/api/", "ftp://slack.com", "https://", "slack.com"])
def test_a_token_goes_out_encrypted_or_not_at_all(url: str) -> None:
    """Only https, or loopback, is given the token."""
    with pytest.raises(Misconfigured):
        SlackApi(url, TOKEN)


def test_without_a_token_the_remedy_is_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """No token means no call, and the error names the setting."""
    monkeypatch.delenv("CORTEX_SLACK_TOKEN")
    settings.cache_clear()
    with pytest.raises(Misconfigured) as caught:
        items(web(workspace))
    assert (caught.value.error_code, workspace.calls) == ("slack.token_missing", [])
    assert "CORTEX_SLACK_TOKEN" in caught.value.hint


def refetched(source: SlackConnector, *external_ids: str) -> dict[str, Item]:
    return {found.external_id: found for found in source.refetch(external_ids) if isinstance(found, Item)}


def test_one_thread_is_read_again_alone(workspace: Workspace) -> None:
    """A thread that is asked for comes whole, with its files, as a full listing gives it; no history is read for it."""
    full = {item.external_id: item for item in items(web(workspace))}
    workspace.calls.clear()
    found = refetched(web(workspace), "G0SEC/1772700000.000900")
    assert found == {name: full[name] for name in ("G0SEC/F0OFFER", "G0SEC/1772700000.000900")}
    assert {method for method, _ in workspace.calls} & {"conversations.history", "GET"} == set()


def test_a_day_is_read_again_without_its_threads(workspace: Workspace) -> None:
    """A day that is asked for holds what was said outside of threads, as a full listing gives it."""
    full = {item.external_id: item for item in items(web(workspace))}
    workspace.calls.clear()
    assert refetched(web(workspace), "C0GEN/2026-03-02") == {"C0GEN/2026-03-02": full["C0GEN/2026-03-02"]}
    assert [given for method, given in workspace.calls if method == "conversations.replies"] == []


def test_what_is_gone_is_not_listed_again(workspace: Workspace) -> None:
    """A thread that was deleted is not listed, and no failure: then it is gone."""
    found = list(web(workspace).refetch(["C0GEN/1772444000.999999", "C0NO/1.0", "C0GEN/1/2", "nonsense"]))
    assert [each for each in found if isinstance(each, Item)] == []
    assert "C0GEN" not in {each.external_id for each in found if isinstance(each, FetchFailure)}


def test_a_channel_out_of_sight_hides_what_was_asked_for(workspace: Workspace) -> None:
    """Where the token may not read the channel any more, what is in it is out of sight and not gone."""
    workspace.errors["conversations.replies G0SEC"] = "not_in_channel"
    found = list(web(workspace).refetch(["G0SEC/1772700000.000900"]))
    failed = {(each.external_id, each.code) for each in found if isinstance(each, FetchFailure)}
    assert ("G0SEC", "channel.unreadable") in failed


def test_an_export_can_be_asked_for_single_threads_too(export: Path, workspace: Workspace) -> None:
    """Both ways into a workspace give the same thread."""
    wanted = "C0GEN/1772444000.000200"
    by_export, by_api = connector(export, domain="acme"), web(workspace)
    assert refetched(by_export, wanted) == refetched(by_api, wanted)
    assert list(by_export.memberships()) == list(by_api.memberships())
