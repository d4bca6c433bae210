"""Questions in Slack, from the signed delivery to what is posted: as whom they are asked, and who sees the answer."""

from __future__ import annotations

from typing import Any

import pytest

from clients.slack import messages
from clients.slack.asking import SERVICE
from cortex.errors import Corrupt
from cortex.evidence import Question, SearchResult
from cortex.principals import Principal
from cortex.settings import Settings
from tests.twins.service import ADA, BEN, CLEO, TwinService
from tests.twins.slack_workspace import Workspace
from tests.unit.clients.slack.conftest import (
    BOT,
    RECEIPTS,
    SALARY,
    Bot,
    account,
    direct,
    mention,
    opened,
    parts_of,
    shown,
)

OPEN, QUIET = "chat.postMessage", "chat.postEphemeral"
SECRETS = ("82,000", "Salary bands")


async def test_a_mention_is_answered_in_its_thread_for_everyone_there(bot: Bot) -> None:
    """What all members may open is posted under the question, as the asker's answer, with links to the sources."""
    asked = mention()
    (post,) = await bot.deliver(asked)
    assert (post["method"], post["channel"], post["thread_ts"]) == (OPEN, "G0PAIR", asked["event"]["ts"])
    assert "Receipts are due within 30 days" in shown(post) and messages.FOR_ALL in shown(post)
    assert parts_of(post, "link")[0] == {
        "type": "link",
        "url": "https://wiki.example.com/1#L25-L33",
        "text": "[1]",
    }
    assert (post["unfurl_links"], post["unfurl_media"]) == (False, False)
    assert [(each.user_id, each.actor, each.readers) for each, _ in bot.service.asked] == [
        (ADA, SERVICE, (BEN,))
    ]


async def test_a_reply_stays_in_the_thread_of_its_question(bot: Bot) -> None:
    """A mention inside a thread is answered there."""
    (post,) = await bot.deliver(mention(thread_ts="1780000000.000100"))
    assert post["thread_ts"] == "1780000000.000100"


async def test_what_a_member_may_not_open_is_for_the_asker_alone(bot: Bot) -> None:
    """Where everyone's evidence answers nothing, only the asker sees an answer of their own."""
    asked = mention(SALARY)
    (post,) = await bot.deliver(asked)
    assert (post["method"], post["user"], post["thread_ts"]) == (QUIET, "U0ADA", asked["event"]["ts"])
    assert "82,000" in shown(post) and messages.FOR_YOU in shown(post)
    assert [each.readers for each, _ in bot.service.asked] == [(BEN,), ()]


async def test_an_asker_alone_with_the_bot_is_their_own_audience(bot: Bot) -> None:
    """In a private channel of one person and an app, that person's evidence is everybody's."""
    (post,) = await bot.deliver(mention(SALARY, channel="G0ALONE"))
    assert post["method"] == OPEN and "82,000" in shown(post)


async def test_an_abstention_says_so_and_to_the_asker_alone(bot: Bot) -> None:
    """Nothing found is said quietly: a channel cannot tell it from an answer that was not for it."""
    (post,) = await bot.deliver(mention(SALARY, user="U0BEN"))
    assert post["method"] == QUIET and "Not answered" in shown(post)
    assert not any(secret in shown(post) for secret in SECRETS) and not parts_of(post, "link")


async def test_a_direct_message_is_answered_as_whoever_wrote_it(bot: Bot) -> None:
    """Between a person and the bot nobody else reads: no audience is asked for."""
    asked = direct(SALARY)
    (post,) = await bot.deliver(asked)
    assert (post["method"], post["channel"], post["thread_ts"]) == (OPEN, "D0ADA", asked["event"]["ts"])
    assert "82,000" in shown(post) and messages.FOR_ALL not in shown(post)
    assert [(each.user_id, each.readers) for each, _ in bot.service.asked] == [(ADA, ())]


async def test_a_slash_command_is_answered_to_whoever_typed_it(bot: Bot) -> None:
    """Nobody saw the question, so nobody else sees the answer, wherever it was typed."""
    (post,) = await bot.command(f"{RECEIPTS} (and what is the payload?)")
    assert (post["method"], post["response_type"]) == ("respond", "ephemeral")
    assert "within 30 days" in shown(post)
    assert bot.service.asked[0][0].user_id == ADA


STRANGERS: list[dict[str, Any]] = [
    account("U0WHO", "who@example.com"),  # verified, but not known to Cortex
    account("U0WHO", ADA, is_email_confirmed=False),
    account("U0WHO", ADA, is_email_confirmed="true"),
    account("U0WHO", ADA, is_email_confirmed=None),
    account("U0WHO", ADA, team_id="T0OTHER"),
    account("U0WHO", ADA, team_id=""),
    account("U0WHO", ADA, is_stranger=True),
    account("U0WHO", ADA, deleted=True),
    account("U0WHO", ADA, is_invited_user=True),
    account("U0WHO", ADA, is_bot=None),
    account("U0WHO", f"{ADA}, {BEN}"),
    account("U0WHO", ""),
    account("U0WHO", ADA, profile=None),
]


@pytest.mark.parametrize("who", STRANGERS)
async def test_who_is_not_certainly_known_gets_a_polite_nothing(bot: Bot, who: dict[str, Any]) -> None:
    """Everybody who cannot be mapped gets the same words by every way, and none of them depend on what exists."""
    bot.workspace.users.append(who)
    bot.workspace.members["G0PAIR"].append("U0WHO")
    for text in (SALARY, "xylophone"):
        (at_once,) = await bot.deliver(mention(text, user="U0WHO"))
        (alone,) = await bot.deliver(direct(text, user="U0WHO"))
        (typed,) = await bot.command(text, user="U0WHO")
        assert (at_once["method"], at_once["user"]) == (QUIET, "U0WHO")
        assert {post["text"] for post in (at_once, alone, typed)} == {messages.NOTHING}
        assert not any("blocks" in post for post in (at_once, alone, typed))


async def test_a_bot_is_not_answered(bot: Bot) -> None:
    """Two bots do not talk to one another, whatever their accounts claim."""
    bot.workspace.users.append(account("U0ROBOT", ADA, is_bot=True))
    assert await bot.deliver(mention(user="U0ROBOT")) == []
    assert await bot.deliver(mention(user="U0ADA", bot_id="B0ROBOT")) == []
    assert await bot.deliver(direct(user=BOT)) == []
    assert bot.service.asked == []


async def test_a_removed_person_gets_a_polite_nothing(bot: Bot) -> None:
    """Who was removed from Cortex is answered like who was never there."""
    bot.service.removed = {ADA}
    (post,) = await bot.deliver(direct(SALARY))
    assert post["text"] == messages.NOTHING


async def test_events_of_other_workspaces_and_edits_are_no_questions(bot: Bot) -> None:
    """Another team's event, an edit, a join, a message without a sender and one outside of a direct conversation are left."""
    for body in (
        mention() | {"team_id": "T0OTHER"},
        direct(subtype="message_changed"),
        direct(subtype="channel_join"),
        direct(user=None),
        direct(channel="C0GENERAL"),
        direct(channel_type="channel", channel="C0GENERAL"),
        mention(channel="../U0ADA"),
    ):
        assert await bot.deliver(body) == []
    assert await bot.command(RECEIPTS, team_id="T0OTHER") == []


@pytest.mark.parametrize("missing", ["user_id", "channel_id", "trigger_id", "response_url"])
async def test_a_command_that_lacks_something_is_left(bot: Bot, missing: str) -> None:
    """Who asks, where, which delivery it is and where the answer goes: without one of them nothing is asked."""
    assert await bot.command(RECEIPTS, **{missing: ""}) == []
    assert bot.service.asked == []


async def test_an_empty_question_is_told_what_to_do(bot: Bot) -> None:
    """Only the bot's name, or a command without words, is answered with how to ask."""
    for posts in (await bot.deliver(mention("")), await bot.command("  ")):
        assert [post["text"] for post in posts] == [messages.HELP]
    assert bot.service.asked == []


@pytest.mark.parametrize("ways", ["again", "restart", "both kinds"])
async def test_a_delivery_is_answered_once(bot: Bot, home: Settings, ways: str) -> None:
    """A retry, a second delivery after a restart, and one message that comes as two events get one answer in all."""
    asked = direct()
    again = asked | {"event_id": "Ev0OTHER"}
    if ways == "both kinds":
        again = again | {"event": again["event"] | {"type": "app_mention"}}
    assert len(await bot.deliver(asked)) == 1
    if ways == "restart":
        async with opened(bot.workspace, home, bot.service) as restarted:
            assert await restarted.deliver(again, **{"x-slack-retry-num": "2"}) == []
    else:
        assert (
            await bot.deliver(again, **{"x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout"})
            == []
        )
    assert len(bot.service.asked) == 1
    assert len(await bot.command(RECEIPTS, trigger="7.7")) == 1
    assert await bot.command(RECEIPTS, trigger="7.7") == []


async def test_a_thumb_reaches_cortex_as_its_owner(bot: Bot) -> None:
    """The asker's press is recorded; another's is refused, without a word about the answer; both are told quietly."""
    (post,) = await bot.deliver(mention())
    helpful, unhelpful = parts_of(post, "button")
    (told,) = await bot.press(unhelpful, user="U0BEN")
    assert (told["text"], told["response_type"]) == (messages.NOT_YOURS, "ephemeral")
    (told,) = await bot.press(helpful)
    assert (told["text"], told["replace_original"]) == (messages.THANKS, False)
    assert [(answer_id, is_helpful) for answer_id, is_helpful, _ in bot.service.thumbs] == [
        (helpful["value"], True)
    ]


@pytest.mark.parametrize("value", ["", 7])
async def test_a_thumb_without_an_answer_is_left(bot: Bot, value: Any) -> None:
    """A button that names no answer does nothing and is not replied to."""
    (post,) = await bot.deliver(mention())
    assert await bot.press({**parts_of(post, "button")[0], "value": value}) == []
    assert bot.service.thumbs == []


async def test_a_stranger_cannot_rate(bot: Bot) -> None:
    """A press by somebody who is not known changes nothing."""
    (post,) = await bot.deliver(mention())
    bot.workspace.users[0]["is_email_confirmed"] = False
    (told,) = await bot.press(parts_of(post, "button")[0])
    assert (told["text"], bot.service.thumbs) == (messages.NOTHING, [])


async def test_a_pause_that_slack_asks_for_is_kept(bot: Bot) -> None:
    """A call that is told to wait is made again after the pause, and posted once."""
    bot.workspace.pauses["chat.postMessage"] = ["0"]
    assert len(await bot.deliver(mention())) == 1
    assert [method for method, _ in bot.workspace.calls].count("chat.postMessage") == 2


async def test_a_message_that_may_have_arrived_is_not_sent_again(bot: Bot) -> None:
    """A server error while posting loses the answer rather than posting it twice, and the next question is answered."""
    bot.workspace.statuses["chat.postMessage"] = [500]
    assert await bot.deliver(direct()) == []
    assert [method for method, _ in bot.workspace.calls].count("chat.postMessage") == 1
    assert len(await bot.deliver(direct())) == 1


async def test_a_cortex_that_cannot_answer_is_told_in_plain_words(bot: Bot) -> None:
    """An error of the server reaches the asker alone, as a sentence that says nothing about documents."""
    bot.service.fail_with = Corrupt("a row is gone")
    (post,) = await bot.deliver(mention())
    assert (post["method"], post["text"]) == (QUIET, messages.UNAVAILABLE)


async def test_a_bot_that_is_not_registered_says_nothing_of_it(slack: Workspace, home: Settings) -> None:
    """Where Cortex does not know the service, people are told to come back, not who is missing."""
    async with opened(slack, home, TwinService()) as bot:
        (post,) = await bot.deliver(direct())
        assert post["text"] == messages.UNAVAILABLE


async def test_a_slack_that_does_not_say_who_asks_gets_no_answer(bot: Bot) -> None:
    """While users.info fails nobody is anybody."""
    bot.workspace.errors["users.info"] = "internal_error"
    (post,) = await bot.deliver(direct(SALARY))
    assert post["text"] == messages.UNAVAILABLE
    assert bot.service.asked == []


class _Joining(TwinService):
    """A query path during which somebody joins the channel."""

    workspace: Workspace

    async def search(self, principal: Principal, question: Question) -> SearchResult:
        if principal.readers:
            self.workspace.members["G0PAIR"].append("U0CLEO")
        return await super().search(principal, question)


async def test_who_joins_while_an_answer_is_written_makes_it_quiet(slack: Workspace, home: Settings) -> None:
    """An answer that was made for fewer people than are there when it is ready is not posted."""
    service = _Joining(services={SERVICE})
    service.workspace = slack
    async with opened(slack, home, service) as bot:
        (post,) = await bot.deliver(mention())
        assert post["method"] == QUIET


async def test_a_group_message_is_for_its_members(bot: Bot) -> None:
    """In a group message everyone in it is asked for."""
    (post,) = await bot.deliver(mention(channel="G0GROUP"))
    assert post["method"] == OPEN
    assert set(bot.service.asked[0][0].readers) == {BEN, CLEO}
