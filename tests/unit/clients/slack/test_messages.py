"""What is posted: citations as links, documents' words as words and nothing else, and how questions are read."""

from __future__ import annotations

from typing import Any

import pytest

from clients.slack.messages import FOR_ALL, answer_message, escaped
from clients.slack.questions import HELPFUL, UNHELPFUL, plain
from cortex.api import AnchorModel, AnswerResponse, CitationModel, SupportModel
from tests.unit.clients.slack.conftest import BOT, parts_of

LINE = AnchorModel(kind="line", start=3, end=5, label="", fragment="L3-L5")


def citation(
    number: int, permalink: str, title: str = "Handbook", anchor: AnchorModel = LINE
) -> CitationModel:
    return CitationModel(
        number=number,
        fragment_id="f",
        document_id="d",
        title=title,
        permalink=permalink,
        anchor=anchor,
        quote="",
    )


def answer(text: str, *citations: CitationModel, mode: str = "extractive") -> AnswerResponse:
    return AnswerResponse(
        hits=[], evidence=[], support=SupportModel(top_cosine=None, term_share=1, probability=1, is_sufficient=True),
        degraded=[], trace_id="", timings_ms={}, answer_id="answer-1", answer=text, citations=list(citations),
        abstained=mode == "abstained", mode=mode, model="", follow_ups=[],
    )  # fmt: skip


def posted(text: str, *citations: CitationModel, **more: Any) -> dict[str, Any]:
    return answer_message(answer(text, *citations, **more)).content


def test_marks_become_links_to_the_cited_place() -> None:
    """`[1]`, and each number of `[1, 2]`, links to its source; a number that nothing stands behind stays text."""
    post = posted(
        "Due in May [1, 2]. Paid in June [7].", citation(1, "https://w/a"), citation(2, "https://w/b")
    )
    line = post["blocks"][0]["elements"][0]["elements"]
    assert line == [
        {"type": "text", "text": "Due in May "},
        {"type": "link", "url": "https://w/a#L3-L5", "text": "[1]"},
        {"type": "link", "url": "https://w/b#L3-L5", "text": "[2]"},
        {"type": "text", "text": ". Paid in June "},
        {"type": "text", "text": "[7]"},
        {"type": "text", "text": "."},
    ]


def test_a_slack_message_is_linked_by_its_own_address() -> None:
    """A citation of a message leads to that message."""
    anchor = AnchorModel(kind="message", start=2, end=2, label="", fragment="p1772700000000900")
    post = posted(
        "Yes [1].", citation(1, "https://acme.slack.com/archives/G0SEC/p1772700000000100", anchor=anchor)
    )
    assert parts_of(post, "link")[0]["url"] == "https://acme.slack.com/archives/G0SEC/p1772700000000900"


@pytest.mark.parametrize(
    "permalink", ["file:///srv/handbook.md", "", "javascript:alert(1)", "https://w/a b", "https://[", "https://w/" + "a" * 3_000]
)  # fmt: skip
def test_what_no_browser_should_open_is_named_and_not_linked(permalink: str) -> None:
    """A file of the server, a script and a broken address are shown by their title."""
    post = posted("Yes [1].", citation(1, permalink))
    assert parts_of(post, "link") == []
    assert {"type": "text", "text": "[1] Handbook"} in parts_of(post, "text")


def test_documents_cannot_speak_to_slack() -> None:
    """Markup in an answer or a title, calls to the channel and hidden characters are words or gone, never commands."""
    evil = "<!channel> <@U0ADA> <https://evil.example|click> *bold* &amp; \u202ereversed\x07"
    post = posted(f"{evil} [1]", citation(1, "https://w/a", title=evil))
    words = "<!channel> <@U0ADA> <https://evil.example|click> *bold* &amp; reversed"
    assert parts_of(post, "text")[0] == {"type": "text", "text": f"{words} "}
    assert {each["text"] for each in parts_of(post, "link")} == {"[1]", f"[1] {words}"}
    assert post["text"] == escaped(f"{words} [1]") and "<" not in post["text"]
    assert {block["type"] for block in post["blocks"]} == {"rich_text", "context", "actions"}
    assert parts_of(post, "mrkdwn") == []


def test_a_long_answer_is_cut_and_lists_a_few_sources() -> None:
    """Slack refuses endless messages: text, titles and the list of sources have an end."""
    cited = [citation(number, "https://w/a", title="t" * 500) for number in range(1, 40)]
    post = posted("word " * 5_000, *cited)
    assert len(post["text"]) < 3_100 and post["text"].endswith(" …")
    (listed,) = (part for part in post["blocks"][0]["elements"] if part["type"] == "rich_text_list")
    assert len(listed["elements"]) == 10
    assert all(len(link["text"]) < 160 for link in parts_of(post, "link"))


def test_an_answer_carries_two_thumbs_and_how_it_was_made() -> None:
    """Buttons name the answer; the line above them says how it came about and who sees it."""
    post = answer_message(answer("Yes."), FOR_ALL).content
    assert [(each["action_id"], each["value"]) for each in parts_of(post, "button")] == [
        (HELPFUL, "answer-1"),
        (UNHELPFUL, "answer-1"),
    ]
    assert parts_of(post, "plain_text")[0]["text"] == f"Sentences of the sources, unchanged. {FOR_ALL}"


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (f"<@{BOT}>  when   is\nlunch?", "when is lunch?"),
        ("see <https://w/a|the wiki> and <https://w/b>", "see the wiki and https://w/b"),
        ("in <#C0GENERAL|general> or <#C0X>", "in #general or"),
        ("ask <@U0BEN|ben> or <@U0CLEO>", "ask ben or"),
        ("<!here> <!subteam^S1|@ops> a &lt; b &amp;&amp; c &gt; d &amp;lt;", "@ops a < b && c > d &lt;"),
        ("a\x00b <c> d", "a b c d"),
        (None, ""),
        (7, ""),
    ],
)
def test_a_question_is_the_words_that_were_typed(typed: Any, read: str) -> None:
    """Markup gives way to what a person reads, entities are decoded once, anything else than text is no question."""
    assert plain(typed, BOT) == read
