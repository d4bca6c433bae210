"""What becomes of Slack's messages: threads, days, edits, removals, noise, markup, and who is shown as the speaker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.connectors.slack_exports import (
    conversation,
    failures,
    files,
    items,
    left_out,
    said,
    spoken,
    text_of,
    user,
    write,
)

ROOT, LATER = "1772444000.000100", "1772530400.000200"  # 2 and 3 March 2026


def test_a_thread_is_one_item_with_its_late_replies(tmp_path: Path) -> None:
    """A reply of the next day belongs to its thread, and is in no day's item."""
    root = said("When do we ship?", ROOT, thread_ts=ROOT, reply_count=1)
    reply = said("On 14 April.", LATER, thread_ts=ROOT)
    listed = items(write(tmp_path, files(root, **{"general/2026-03-03.json": [reply]})))
    assert list(listed) == [f"C0GEN/{ROOT}"]
    assert spoken(listed[f"C0GEN/{ROOT}"]) == [("Ana", "When do we ship?"), ("Ana", "On 14 April.")]


def test_old_exports_name_replies_at_the_root_alone(tmp_path: Path) -> None:
    """A root's list of replies makes the thread where the replies do not say so themselves."""
    root = said("When do we ship?", ROOT, replies=[{"user": "U0ANA", "ts": LATER}])
    assert list(items(write(tmp_path, files(root, said("Soon.", LATER))))) == [f"C0GEN/{ROOT}"]


def test_a_reply_whose_root_is_gone_keeps_its_thread(tmp_path: Path) -> None:
    """Replies stay a thread when their root was deleted or fell out of retention."""
    listed = items(write(tmp_path, files(said("Soon.", LATER, thread_ts=ROOT))))
    assert list(listed) == [f"C0GEN/{ROOT}"]


def test_each_turn_names_its_own_permalink(tmp_path: Path) -> None:
    """A turn's mark is the last part of the message's permalink, to the microsecond."""
    root, reply = said("One", ROOT, thread_ts=ROOT), said("Two", LATER, thread_ts=ROOT)
    item = items(write(tmp_path, files(root, reply)))[f"C0GEN/{ROOT}"]
    assert [turn.mark for turn in conversation(item).turns] == ["p1772444000000100", "p1772530400000200"]
    assert item.meta["permalink"] == (
        f"https://slack.com/archives/C0GEN/p1772444000000100?thread_ts={ROOT}&cid=C0GEN"
    )


def test_changes_and_removals_are_applied(tmp_path: Path) -> None:
    """An edit replaces its message, a removal drops it, a tombstone says nothing."""
    changed = {
        "type": "message",
        "subtype": "message_changed",
        "ts": LATER,
        "message": said("Shipped.", ROOT),
    }
    removed = {"type": "message", "subtype": "message_deleted", "ts": LATER, "deleted_ts": LATER}
    tombstone = said("This message was deleted.", "1772530500.000000", subtype="tombstone")
    root = write(tmp_path, files(said("Shippped.", ROOT), said("Oops", LATER), changed, removed, tombstone))
    assert text_of(root) == "Shipped."


def test_an_edit_moves_an_item_to_the_end_of_the_listing(tmp_path: Path) -> None:
    """The listing is ordered by last activity, so that a cursor meets the edited item again."""
    first = said("Old, edited late", ROOT, thread_ts=ROOT, edited={"ts": "1772600000.000000"})
    second = said("New", LATER, thread_ts=LATER)
    assert list(items(write(tmp_path, files(first, second)))) == [f"C0GEN/{LATER}", f"C0GEN/{ROOT}"]


def test_a_clock_that_runs_ahead_does_not_move_the_cursor(tmp_path: Path) -> None:
    """A message of the year 2999 comes first in the order, and everything written later is still found."""
    ahead, now = said("Ahead", "32472144000.000000"), said("Now", ROOT)
    listed = items(write(tmp_path, files(ahead, now)))
    assert list(listed) == ["C0GEN/2999-01-01", "C0GEN/2026-03-02"]


def test_noise_is_counted_not_indexed(tmp_path: Path) -> None:
    """Joins, leaves and pins are no text of anybody's; the report counts them."""
    noise = [
        said("joined", f"17724440{n:02}.000000", subtype=kind)
        for n, kind in enumerate(("channel_join", "pinned_item"))
    ]
    root = write(tmp_path, files(*noise, said("Hello")))
    assert (text_of(root), failures(root)) == ("Hello", [])
    assert left_out(root) == {"message.channel_join": 1, "message.pinned_item": 1}


@pytest.mark.parametrize(
    ("message", "speaker"),
    [
        (said("x"), "Ana"),
        (said("x", user="U0NOBODY"), "U0NOBODY"),
        (said("x", user="U0X", user_profile={"display_name": "Гость"}), "Гость"),
        (said("x", user="", bot_id="B0", bot_profile={"name": "CI"}), "CI"),
        (said("x", user=None, bot_id="B0", username="Travis", subtype="bot_message"), "Travis"),
        (said("x", user=None, bot_id="B0", subtype="bot_message"), "bot"),
        (said("x", user=None, comment={"user": "U0ANA"}, subtype="file_comment"), "Ana"),
        ({"type": "message", "ts": ROOT, "text": "x"}, ""),
    ],
    ids=["person", "unknown", "stranger", "app", "integration", "nameless-bot", "comment", "nobody"],
)
def test_the_speaker_is_who_slack_shows(tmp_path: Path, message: dict[str, object], speaker: str) -> None:
    """A turn's speaker is the person, the stranger, or the app that Slack shows; empty when nobody is named."""
    (item,) = items(write(tmp_path, files(message))).values()
    assert spoken(item) == [(speaker, "x")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@U0ANA> and <@U0LEFT|lea>", "@Ana and @lea"),
        ("<#C0GEN> <#C9|elsewhere> <#G0SEC|glacier>", "#general #elsewhere #private-channel"),
        (
            "<https://a.example/x|the plan>, <https://b.example>",
            "the plan (https://a.example/x), https://b.example",
        ),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("<!here> <!subteam^S1|@ops> <!subteam^S2> <!date^1^{date}|1 March>", "@here @ops @writers 1 March"),
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("```if a &lt; b:\n    go()```", "```if a < b:\n    go()```"),
        (":tada: *bold* 出荷 שלום", ":tada: *bold* 出荷 שלום"),
    ],
)
def test_markup_reads_as_on_the_screen(tmp_path: Path, text: str, shown: str) -> None:
    """Ids become names, links keep their address, and a private channel's name is not told elsewhere."""
    more = {
        "groups.json": [{"id": "G0SEC", "name": "glacier", "members": []}],
        "usergroups.json": [{"id": "S2", "handle": "writers", "users": []}],
    }
    assert text_of(write(tmp_path, files(said(text), **more))) == shown


def test_blocks_attachments_and_files_are_read(tmp_path: Path) -> None:
    """What only blocks, attachments or files say is in the text, and what the plain text repeats is there once."""
    section = [
        {"type": "text", "text": "Ship "},
        {"type": "user", "user_id": "U0ANA"},
        {"type": "emoji", "name": "ship"},
    ]
    rich = [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": section}]}]
    message = said(
        "Ship <@U0ANA>:ship:",
        blocks=rich,
        attachments=[
            {"pretext": "Build 7", "title": "failed", "title_link": "https://ci.example/7", "fallback": "no"}
        ],
        files=[{"name": "log.txt", "title": "Log", "preview": "step 3: out of disk"}],
    )
    assert text_of(write(tmp_path, files(message))) == (
        "Ship @Ana:ship:\nBuild 7\nfailed\nhttps://ci.example/7\n(file: Log, log.txt)\nstep 3: out of disk"
    )


@pytest.mark.parametrize(
    "message",
    [None, [], "text", {}, {"ts": True}, {"ts": "soon", "text": "x"}, {"ts": "-1.0"}, {"ts": {"a": 1}}],
    ids=str,
)
def test_what_cannot_be_placed_is_reported(tmp_path: Path, message: object) -> None:
    """A message without a usable timestamp is reported with its file and number; the others are loaded."""
    root = write(tmp_path, files(message, said("Hello")))
    assert (text_of(root), failures(root)) == ("Hello", [("general/2026-03-02.json#1", "message.malformed")])


def test_of_two_messages_with_one_id_the_first_counts(tmp_path: Path) -> None:
    """A repeated message is loaded once; another one under the same id is reported."""
    root = write(tmp_path, files(said("One"), said("One"), said("Other")))
    assert (text_of(root), failures(root)) == ("One", [("general/2026-03-02.json#3", "message.malformed")])


def test_wrong_types_anywhere_do_no_harm(tmp_path: Path) -> None:
    """Fields of an unexpected type are passed over, and what can be read is."""
    odd = said(
        "Hello",
        blocks={"type": 7, "text": {"text": {"text": "deep"}}},
        attachments="none",
        files=[7, None, {"name": 3}],
        thread_ts=4,
        edited="yes",
        replies=[1, {"ts": None}],
        username=[],
        user_profile="x",
    )
    root = write(tmp_path, files(odd, **{"usergroups.json": [7, {"id": 3}]}))
    assert "Hello" in text_of(root)


def test_names_of_every_script_stay_themselves(tmp_path: Path) -> None:
    """Speakers and channels keep their names; a name's line breaks become spaces."""
    names = {"U1": "雪 佐藤", "U2": "שרה כהן", "U3": "Zoë\nDe Vries", "U4": "ঈশিতা", "U5": "👩‍🚀 Astro"}
    messages = [said("x", f"177244400{n}.000000", user=who) for n, who in enumerate(names)]
    content = files(*messages) | {"users.json": [user(who, name) for who, name in names.items()]}
    (item,) = items(write(tmp_path, content)).values()
    assert [speaker for speaker, _ in spoken(item)] == [
        "雪 佐藤",
        "שרה כהן",
        "Zoë De Vries",
        "ঈশিতা",
        "👩‍🚀 Astro",
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("*Weekly* _update_ for `main`\nAll is well.", "#general: Weekly update for main"),
        ("```\nmake_all * 2\n```", "#general: make_all * 2"),
        ("snake_case and other_case", "#general: snake_case and other_case"),
    ],
)
def test_a_title_is_read_and_not_typed(tmp_path: Path, text: str, title: str) -> None:
    """A thread's title leaves out the marks of emphasis; in the text they stay as they were typed."""
    root = write(tmp_path, files(said(text, ROOT, thread_ts=ROOT)))
    (item,) = items(root).values()
    assert (conversation(item).title, spoken(item)[0][1]) == (title, text)
