"""Slack's markup as plain text: mrkdwn, Block Kit, attachments and files, with ids replaced by names.

Nothing that a reader sees is dropped. Menus' options and dialogs, which show only after a click, are not read.
References: https://docs.slack.dev/messaging/formatting-message-text, https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from connectors.slack_model import Channel, ChannelKind, Workspace, arr, obj, word

_MARK = re.compile(r"<([^<>\n]+)>")
_LETTERS = re.compile(r"\W+")
_MAX_DEPTH = 30
_SEEN_KEYS = (
    "header", "pretext", "author_name", "author_subname", "service_name", "title", "subtitle", "label", "text",
    "name", "display_as", "alt_text", "description", "caption", "provider_name", "hint", "placeholder", "value",
    "initial_option", "initial_options", "initial_value", "fields", "elements", "element", "rows", "body",
    "accessory", "actions", "call", "v1", "preview", "filename", "list", "list_metadata", "blocks", "message_blocks", "message", "footer",
)  # fmt: skip


class Renderer:
    """Writes messages of one channel as text; a private channel's name is told in that channel alone."""

    def __init__(self, workspace: Workspace, channel: Channel) -> None:
        self._workspace = workspace
        self.channel = channel

    def message(self, raw: dict[str, Any]) -> str:
        """Return all that a reader sees of a message, in the order of the screen."""
        text = raw.get("text")
        said = self.mrkdwn(text) if isinstance(text, str) else ""
        parts = [_fuller(said, self._join(raw.get("blocks")))]
        parts += [self._attachment(obj(each), said) for each in arr(raw.get("attachments"))]
        parts += [self._file(obj(each)) for each in arr(raw.get("files")) or [raw.get("file")] if each]
        parts.append(self._join(raw.get("room")))
        kept: list[str] = []
        for part in filter(None, (part.strip() for part in parts)):
            if not any(_holds(other, part) for other in kept):
                kept.append(part)
        return "\n".join(kept)

    def mrkdwn(self, text: str) -> str:
        """Resolve mentions, links and entities; code, emphasis and emoji names stay as they were typed."""
        return _unescape(_MARK.sub(self._mark, text))

    def person(self, user_id: str, otherwise: str = "") -> str:
        """Name an account by its id."""
        user = self._workspace.users.get(user_id)
        return user.name if user else otherwise or user_id

    def _mark(self, match: re.Match[str]) -> str:
        target, _, label = match[1].partition("|")
        kind, ref = target[:1], target[1:]
        if kind == "@":
            return f"@{self.person(ref, label)}"
        if kind == "#":
            return f"#{self._channel_name(ref, label)}"
        if kind == "!":
            return self._special(ref, label)
        address = target.removeprefix("mailto:").removeprefix("tel:")
        return f"{label} ({address})" if label and label not in (target, address) else address

    def _special(self, ref: str, label: str) -> str:
        name, _, rest = ref.partition("^")
        if name == "subteam":
            return f"@{self._usergroup(rest) or label.lstrip('@') or rest}"
        return label or (f"@{name}" if name in ("here", "channel", "everyone") else ref)

    def _channel_name(self, channel_id: str, label: str = "") -> str:
        channel = self._workspace.channels.get(channel_id)
        if channel_id == self.channel.channel_id:
            return self.channel.name
        if channel is None:
            return label or channel_id
        return channel.name if channel.kind is ChannelKind.PUBLIC else "private-channel"

    def _usergroup(self, group_id: str) -> str:
        return self._workspace.usergroups.get(group_id, ("", frozenset()))[0]

    def _attachment(self, raw: dict[str, Any], said: str) -> str:
        seen = self._join(
            {name: value for name, value in raw.items() if name not in ("blocks", "message_blocks")}
        )
        blocks = "\n".join(
            filter(None, (self._join(raw.get("blocks")), self._join(raw.get("message_blocks"))))
        )
        parts = [_fuller(seen, blocks)]
        link = word(raw.get("title_link")) or word(raw.get("from_url"))
        parts += [link] if link and link not in parts[0] and link not in said else []
        parts += [self._file(obj(each)) for each in arr(raw.get("files"))]
        fallback = self.mrkdwn(raw["fallback"]) if isinstance(raw.get("fallback"), str) else ""
        return "\n".join(filter(None, parts)) or fallback

    def _file(self, raw: dict[str, Any]) -> str:
        if raw.get("mode") in ("tombstone", "hidden_by_limit"):
            return "(a file that Slack no longer shows)"
        names = list(dict.fromkeys(filter(None, (word(raw.get("title")), word(raw.get("name"))))))
        parts = [f"(file: {', '.join(names)})" if names else ""]
        parts += [
            _unescape(value)
            for key in ("headline", "alt_txt", "plain_text", "preview_plain_text", "preview", "subject")
            if isinstance(value := raw.get(key), str) and not value.lstrip().startswith("<")
        ]
        parts.append(self._join(raw.get("list_metadata")))
        comment = obj(raw.get("initial_comment")).get("comment")
        parts.append(self.mrkdwn(comment) if isinstance(comment, str) else "")
        parts.append(_unescape(word(obj(obj(raw.get("transcription")).get("preview")).get("content"))))
        return "\n".join(dict.fromkeys(part.strip() for part in parts if part.strip()))

    def _join(self, node: Any, depth: int = 0) -> str:
        return "\n".join(filter(None, (line.strip("\n") for line in self._lines(node, depth))))

    def _lines(self, node: Any, depth: int) -> Iterator[str]:
        """Walk a block, or any object made of blocks, and yield what it shows, line by line."""
        if depth > _MAX_DEPTH:
            return
        if isinstance(node, list):
            for each in node:
                yield from self._lines(each, depth + 1)
        elif isinstance(node, str):
            yield self.mrkdwn(node)
        elif isinstance(node, dict):
            shape = _SHAPES.get(str(node.get("type")))
            if shape is not None:
                yield shape(self, node, depth)
                return
            for key in _SEEN_KEYS:
                yield from self._lines(node.get(key), depth + 1)

    def _section(self, node: dict[str, Any], depth: int) -> str:
        return "".join(self._join(each, depth + 1) or _space(each) for each in arr(node.get("elements")))

    def _preformatted(self, node: dict[str, Any], depth: int) -> str:
        return f"```\n{self._section(node, depth)}\n```"

    def _quote(self, node: dict[str, Any], depth: int) -> str:
        return "\n".join(f"> {line}" for line in self._section(node, depth).splitlines())

    def _list(self, node: dict[str, Any], depth: int) -> str:
        indent = "  " * min(node["indent"], 20) if isinstance(node.get("indent"), int) else ""
        is_ordered = node.get("style") == "ordered"
        items = enumerate((self._join(each, depth + 1) for each in arr(node.get("elements"))), start=1)
        return "\n".join(f"{indent}{f'{number}.' if is_ordered else '-'} {item}" for number, item in items)

    def _inline(self, node: dict[str, Any], depth: int) -> str:
        text = _space(node)
        match node.get("type"):
            case "link":
                url = word(node.get("url")).removeprefix("mailto:")
                return f"{text} ({url})" if text and text != url else url
            case "user":
                return f"@{self.person(word(node.get('user_id')))}"
            case "usergroup":
                ref = word(node.get("usergroup_id"))
                return f"@{self._usergroup(ref) or ref}"
            case "channel":
                return f"#{self._channel_name(word(node.get('channel_id')))}"
            case "broadcast":
                return f"@{word(node.get('range'))}"
            case "emoji":
                return f":{word(node.get('name'))}:"
            case "date":
                return word(node.get("fallback")) or str(node.get("timestamp") or "")
            case "color":
                return word(node.get("value"))
            case _:
                return text

    def _text(self, node: dict[str, Any], depth: int) -> str:
        text = node.get("text")
        if isinstance(text, str):
            return self.mrkdwn(text) if node.get("type") in ("mrkdwn", "markdown") else text
        return self._join(text, depth + 1)


_SHAPES: dict[str, Callable[[Renderer, dict[str, Any], int], str]] = {
    "rich_text_section": Renderer._section,
    "rich_text_preformatted": Renderer._preformatted,
    "rich_text_quote": Renderer._quote,
    "rich_text_list": Renderer._list,
    "mrkdwn": Renderer._text,
    "markdown": Renderer._text,
    "plain_text": Renderer._text,
    **dict.fromkeys(
        ("text", "raw_text", "link", "user", "usergroup", "channel", "broadcast", "emoji", "date", "color"),
        Renderer._inline,
    ),
}


def _space(node: Any) -> str:
    """Keep the white space between the words of a section."""
    text = obj(node).get("text")
    return text if isinstance(text, str) else ""


def _fuller(one: str, other: str) -> str:
    """Return the one of two renderings that holds the other; both when neither does."""
    if _holds(other, one):
        return other
    return one if _holds(one, other) else f"{one}\n{other}"


def _holds(text: str, part: str) -> bool:
    """Say whether a text says all that a part says, apart from punctuation and space."""
    key = _LETTERS.sub("", part)
    return key in _LETTERS.sub("", text) if key else part.strip() in text


def _unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
