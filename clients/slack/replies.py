"""Ways to reply: in a thread, openly or to one person alone, and to a command, which nobody else saw."""

from __future__ import annotations

from typing import Protocol

from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from clients.slack.messages import Message
from clients.slack.questions import Asked
from clients.slack.web import ATTEMPTS, TIMEOUT_S, Pauses, quiet_logger, require_safe


class Reply(Protocol):
    """Where an answer goes; sending raises one of web.FAILURES."""

    async def quietly(self, message: Message) -> None:
        """Show a message to the asker alone."""


class ThreadReply:
    """Into the thread of a question."""

    def __init__(self, client: AsyncWebClient, asked: Asked) -> None:
        self._client = client
        self._asked = asked

    async def openly(self, message: Message) -> None:
        """Post a message that everyone in the conversation reads."""
        await self._client.chat_postMessage(
            channel=self._asked.channel_id,
            thread_ts=self._asked.thread_ts,
            unfurl_links=False,
            unfurl_media=False,
            **message.content,
        )

    async def quietly(self, message: Message) -> None:
        """Show a message to the asker alone; in a direct conversation nobody else is there."""
        if self._asked.is_direct:
            await self.openly(message)
            return
        await self._client.chat_postEphemeral(
            channel=self._asked.channel_id,
            user=self._asked.slack_id,
            thread_ts=self._asked.thread_ts,
            **message.content,
        )


class CommandReply:
    """To a slash command or a pressed button, at the address that came with it; good for half an hour."""

    def __init__(self, response_url: str, thread_ts: str = "") -> None:
        self._url = response_url
        self._thread_ts = thread_ts

    async def quietly(self, message: Message) -> None:
        """Show a message to the person alone, and leave the message that it is about as it is."""
        require_safe(self._url)
        client = AsyncWebhookClient(
            self._url,
            timeout=TIMEOUT_S,
            logger=quiet_logger(),
            retry_handlers=[Pauses(max_retry_count=ATTEMPTS)],
        )
        thread = {"thread_ts": self._thread_ts} if self._thread_ts else {}
        said = await client.send_dict(
            {"response_type": "ephemeral", "replace_original": False, **thread, **message.content}
        )
        if said.status_code != 200:
            raise SlackClientError(f"Slack refuses the reply: {said.status_code}")
