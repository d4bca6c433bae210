"""Messages, as Slack shows them: an answer with its citations as links and two thumbs, and the fixed sentences.

What documents say is written as rich text elements, which Slack does not parse: a document can neither call the channel
nor draw links. See https://docs.slack.dev/reference/block-kit/blocks/rich-text-block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from clients.cli.show import clean
from clients.slack.questions import HELPFUL, UNHELPFUL
from cortex.api import AnswerResponse, CitationModel
from cortex.documents import source_link

NOTHING = "Sorry, I cannot help you here."
HELP = "Ask me a question, and I answer from what you may open, with its sources."
TOO_LONG = "That question is too long for me. Please ask a shorter one."
UNSEARCHABLE = "I found no words in that to search for. Please put it differently."
UNAVAILABLE = "I cannot answer right now. Please ask again in a few minutes."
BUSY = "Too many questions are waiting. Please ask again in a moment."
THANKS = "Thank you, noted."
NOT_YOURS = "Only whoever asked can rate this answer."

FOR_ALL = "Only what everyone who can read this channel may open was used."
FOR_YOU = "Only you see this: it may rest on what not everybody who can read this channel may open, or it is not certain who can."
_MODES = {
    "generated": "Written by a model from the sources.",
    "extractive": "Sentences of the sources, unchanged.",
    "abstained": "Not answered: the evidence does not support an answer.",
}
_MARKS = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")
_MOST_CHARS = 3_000
_MOST_SOURCES = 10
_MOST_NOTES = 3
_LONGEST_TITLE = 150
_LONGEST_LINK = 2_000

Element = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """What is posted: a text for notifications, in Slack's markup, and blocks."""

    text: str
    blocks: tuple[dict[str, Any], ...] = ()

    @property
    def content(self) -> dict[str, Any]:
        """The part of a Web API call that says what is shown."""
        return {"text": self.text} | ({"blocks": list(self.blocks)} if self.blocks else {})


def sentence(text: str) -> Message:
    """Make a message of one of the fixed sentences."""
    return Message(escaped(text))


def answer_message(answer: AnswerResponse, note: str = "") -> Message:
    """Make the message of an answer or abstention; `note` says who sees it and why."""
    said = clean(answer.answer).strip()
    if len(said) > _MOST_CHARS:
        said = said[:_MOST_CHARS].rstrip() + " …"
    cited = {each.number: each for each in answer.citations}
    lines: list[Element] = [{"type": "rich_text_section", "elements": list(_linked(said, cited))}]
    if cited:
        lines.append(
            {
                "type": "rich_text_list",
                "style": "bullet",
                "elements": [_source(each) for each in list(cited.values())[:_MOST_SOURCES]],
            }
        )
    degraded = tuple(clean(each.reason)[:_LONGEST_TITLE] for each in answer.degraded[:_MOST_NOTES])
    about = " ".join(filter(None, (_MODES.get(answer.mode, ""), *degraded, note)))
    return Message(
        escaped(said),
        (
            {"type": "rich_text", "elements": lines},
            {"type": "context", "elements": [{"type": "plain_text", "text": about}]},
            {
                "type": "actions",
                "elements": [
                    _button(HELPFUL, "👍 Helpful", answer.answer_id),
                    _button(UNHELPFUL, "👎 Not helpful", answer.answer_id),
                ],
            },
        ),
    )


def escaped(text: str) -> str:
    """Escape the three characters that begin Slack's markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _linked(text: str, cited: dict[int, CitationModel]) -> Iterator[Element]:
    """Cut a text at its citation marks; each mark that a citation stands behind becomes a link."""
    at = 0
    for found in _MARKS.finditer(text):
        if found.start() > at:
            yield _text(text[at : found.start()])
        for number in found[1].split(","):
            citation = cited.get(int(number))
            yield _link(f"[{number.strip()}]", citation) if citation else _text(f"[{number.strip()}]")
        at = found.end()
    if at < len(text) or not text:
        yield _text(text[at:] or "…")


def _source(citation: CitationModel) -> Element:
    title = clean(citation.title).strip()[:_LONGEST_TITLE] or "Untitled"
    return {"type": "rich_text_section", "elements": [_link(f"[{citation.number}] {title}", citation)]}


def _link(text: str, citation: CitationModel) -> Element:
    """Make a link to the cited place; what no browser opens, such as a file of the server, stays text."""
    url = source_link(clean(citation.permalink), citation.anchor.kind, clean(citation.anchor.fragment))
    try:
        is_web = urlsplit(url).scheme in ("http", "https")
    except ValueError:
        is_web = False
    if not is_web or len(url) > _LONGEST_LINK or any(letter.isspace() for letter in url):
        return _text(text)
    return {"type": "link", "url": url, "text": text}


def _text(text: str) -> Element:
    return {"type": "text", "text": text}


def _button(action_id: str, label: str, answer_id: str) -> Element:
    text = {"type": "plain_text", "text": label, "emoji": True}
    return {"type": "button", "action_id": action_id, "text": text, "value": answer_id}
