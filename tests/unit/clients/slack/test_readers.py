"""Who can read a conversation: certain, or nobody knows; and what follows for an answer."""

from __future__ import annotations

from typing import Any

import pytest

from clients.slack.asking import SERVICE
from clients.slack.people import People
from clients.slack.readers import Reach, Readers, reach
from clients.slack.web import open_client
from cortex.settings import Settings
from tests.twins.service import ADA, BEN, CLEO, TwinService
from tests.twins.slack_workspace import Workspace
from tests.unit.clients.slack.conftest import TEAM, Bot, account, mention, opened

PRIVATE = {"id": "G1", "is_private": True, "is_channel": True, "is_shared": False, "is_ext_shared": False, "is_org_shared": False}  # fmt: skip
PUBLIC = {**PRIVATE, "is_private": False}


def readers(home: Settings, *, limit: int = 50, is_in_organisation: bool = False) -> Readers:
    client = open_client(home)
    return Readers(client, People(client, TEAM), TEAM, limit, is_in_organisation=is_in_organisation)


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        (PRIVATE, Reach.MEMBERS),
        (PRIVATE | {"is_mpim": True, "is_channel": False}, Reach.MEMBERS),
        (PUBLIC, Reach.WORKSPACE),
        (PUBLIC | {"shared_team_ids": [TEAM], "context_team_id": TEAM}, Reach.WORKSPACE),
        (PRIVATE | {"is_im": True}, Reach.UNKNOWN),
        (PRIVATE | {"id": "G2"}, Reach.UNKNOWN),
        (PUBLIC | {"is_private": None}, Reach.UNKNOWN),
        (PUBLIC | {"is_channel": False}, Reach.UNKNOWN),
        (PUBLIC | {"is_group": True}, Reach.UNKNOWN),
        ({"id": "G1"}, Reach.UNKNOWN),
        (None, Reach.UNKNOWN),
        *((PRIVATE | {flag: value}, Reach.UNKNOWN) for flag in ("is_shared", "is_ext_shared", "is_org_shared") for value in (True, None, "false")),
        *((PUBLIC | {flag: True}, Reach.UNKNOWN) for flag in ("is_pending_ext_shared", "is_global_shared")),
        *((PRIVATE | {key: [TEAM, "T0OTHER"]}, Reach.UNKNOWN) for key in ("shared_team_ids", "connected_team_ids", "internal_team_ids", "pending_shared", "pending_connected_team_ids", "connected_limited_team_ids")),
        (PUBLIC | {"context_team_id": "T0OTHER"}, Reach.UNKNOWN),
    ],
)  # fmt: skip
def test_a_channel_is_open_to_whom_slack_leaves_no_doubt_about(channel: Any, expected: Reach) -> None:
    """Private and public only where it is said; shared, about to be, or not said to be unshared: unknown."""
    assert reach(channel, "G1", TEAM) is expected


async def test_a_private_channel_is_read_by_its_members(home: Settings) -> None:
    """Members by address; apps and deleted accounts read nothing; lists longer than a page are read to the end."""
    assert await readers(home).of("G0PAIR") == {ADA, BEN}
    assert await readers(home).of("G0GROUP") == {ADA, BEN, CLEO}


async def test_a_public_channel_is_read_by_the_workspace(home: Settings, slack: Workspace) -> None:
    """Anybody may open it, so all full members count, whether they joined or not; guests only if they are in it."""
    slack.users += [
        account("U0GUEST", "guest@agency.example", is_restricted=True),
        account("U0AWAY", "away@partner.example", team_id="T0OTHER", is_stranger=True),
    ]
    assert await readers(home).of("C0GENERAL") == {ADA, BEN, CLEO}
    slack.members["C0GENERAL"].append("U0GUEST")
    assert await readers(home).of("C0GENERAL") == {ADA, BEN, CLEO, "guest@agency.example"}
    slack.members["C0GENERAL"].append("U0AWAY")
    assert await readers(home).of("C0GENERAL") is None


async def test_in_an_organisation_nobody_knows_who_opens_a_public_channel(home: Settings) -> None:
    """Its accounts belong to many workspaces; private channels are as certain as elsewhere."""
    assert await readers(home, is_in_organisation=True).of("C0GENERAL") is None
    assert await readers(home, is_in_organisation=True).of("G0PAIR") == {ADA, BEN}


@pytest.mark.parametrize(
    "doubt",
    [
        {"is_email_confirmed": False},
        {"team_id": "T0OTHER"},
        {"team_id": ""},
        {"is_stranger": True},
        {"profile": {"email": ADA}},  # two accounts, one address
        {"profile": {}},
        {"is_invited_user": True},
        {"is_bot": None},
    ],
)
async def test_one_member_in_doubt_makes_all_unknown(
    home: Settings, slack: Workspace, doubt: dict[str, Any]
) -> None:
    """As long as anybody is not certainly known, nobody knows who reads."""
    slack.users[1] |= doubt
    assert await readers(home).of("G0PAIR") is None


@pytest.mark.parametrize("method", ["conversations.info", "conversations.members", "users.info"])
async def test_a_slack_that_refuses_makes_all_unknown(home: Settings, slack: Workspace, method: str) -> None:
    """Whatever cannot be asked is not assumed."""
    slack.errors[method] = "missing_scope"
    assert await readers(home).of("G0PAIR") is None


async def test_a_list_of_all_accounts_that_fails_makes_a_public_channel_unknown(
    home: Settings, slack: Workspace
) -> None:
    """Without the list of accounts nobody knows who may open a public channel."""
    slack.errors["users.list"] = "missing_scope"
    assert await readers(home).of("C0GENERAL") is None


async def test_more_readers_than_are_checked_are_unknown(home: Settings, slack: Workspace) -> None:
    """At the limit all are listed; beyond it nobody is, and a list without end is not read to its end."""
    assert await readers(home, limit=3).of("G0GROUP") == {ADA, BEN, CLEO}
    assert await readers(home, limit=2).of("G0GROUP") is None
    assert await readers(home, limit=2).of("C0GENERAL") is None
    slack.members["G0GROUP"] += [f"U{n:06}" for n in range(500)]
    slack.calls.clear()
    assert await readers(home).of("G0GROUP") is None
    assert [method for method, _ in slack.calls].count("users.info") == 0


UNSURE = [
    ("conversations.info", {"is_ext_shared": True}),
    ("conversations.info", {"is_private": None}),
    ("users", account("U0NEW", "new@example.com", is_email_confirmed=False)),
    ("users", account("U0NEW", "new@example.com")),  # verified, and nobody whom Cortex knows
    ("users", account("U0NEW", "new@partner.example", team_id="T0OTHER")),
]


@pytest.mark.parametrize("channel", ["G0PAIR", "C0GENERAL"])
@pytest.mark.parametrize(("where", "change"), UNSURE)
async def test_an_answer_is_quiet_where_it_is_not_certain_who_reads(
    bot: Bot, channel: str, where: str, change: dict[str, Any]
) -> None:
    """A shared channel, one of unknown kind, and one with somebody unknown in it: the asker alone is answered."""
    if where == "users":
        bot.workspace.users.append(change)
        bot.workspace.members[channel].append(change["id"])
    else:
        next(each for each in bot.workspace.channels if each["id"] == channel).update(change)
    (post,) = await bot.deliver(mention(channel=channel))
    assert (post["method"], post["user"]) == ("chat.postEphemeral", "U0ADA")


async def test_a_public_channel_counts_people_who_never_joined(bot: Bot) -> None:
    """Alone in a public channel, the asker still gets what only they may open for themselves."""
    (post,) = await bot.deliver(mention("salary band of a senior engineer", channel="C0GENERAL"))
    assert post["method"] == "chat.postEphemeral"
    (post,) = await bot.deliver(mention(channel="C0GENERAL"))
    assert post["method"] == "chat.postMessage"
    assert {each for principal, _ in bot.service.asked for each in principal.readers} == {BEN, CLEO}


async def test_the_server_has_the_last_word_on_how_many(slack: Workspace, home: Settings) -> None:
    """Where Cortex checks fewer people than the bot would list, the answer is quiet."""
    small = home.model_copy(update={"audience_limit": 1})
    async with opened(slack, small, TwinService(services={SERVICE})) as bot:
        (post,) = await bot.deliver(mention())
        assert post["method"] == "chat.postEphemeral"


async def test_readers_are_remembered_for_a_minute_and_askers_never(home: Settings, slack: Workspace) -> None:
    """An address that changes counts at once for whoever asks, and after a minute for whoever only reads."""
    clock = [0.0]
    people = People(open_client(home), TEAM, now=lambda: clock[0])
    assert (await people.reader("U0BEN")).email == BEN
    slack.users[1]["is_email_confirmed"] = False
    assert (await people.reader("U0BEN")).email == BEN
    clock[0] = 61.0
    assert (await people.reader("U0BEN")).email == ""
    slack.users[1]["is_email_confirmed"] = True
    assert (await people.asker("U0BEN")).email == BEN


async def test_an_answer_about_another_account_identifies_nobody(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Slack says counts for the account that was asked about, and for no other."""
    answer = Workspace.answer
    monkeypatch.setattr(
        Workspace, "answer", lambda self, method, given: answer(self, method, {"user": "U0ADA"})
    )
    assert (await People(open_client(home), TEAM).asker("U0ADA")).email == ADA
    assert (await People(open_client(home), TEAM).asker("U0MERGED")).email == ""
