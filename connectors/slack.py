"""The Slack connector: an export archive, or a workspace by the Web API; threads and files with their people and access.

Options: `root` (the path of an export, a zip or its folder) or `url` (the Web API, with the token of
`CORTEX_SLACK_TOKEN`); for an export `domain` (acme of acme.slack.com), and `download` (`yes`: files that it only links to
are had from Slack). A cursor is the last item's last activity: the
next fetch lists the threads and days that changed after it. What was deleted is found by a fetch from the start.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from connectors.document import document_of
from connectors.slack_access import memberships
from connectors.slack_events import read_event, verify
from connectors.slack_listing import Listing
from connectors.slack_messages import instant
from connectors.slack_source import SlackSource
from cortex.documents import NOBODY, Acl, Document, Grant, GrantKind, Item, Membership, ParsedBody
from cortex.edges import EdgeSpace, Name
from cortex.errors import InputError
from cortex.ports.connectors import Fetched, SourceConfig, WebhookEvent
from cortex.settings import settings

_CURSOR = re.compile(r"(\d{1,17})\|(.+)")
# Late replies and edits reach back: threads that were active this long before the cursor are read again.
TAIL_US = 14 * 86_400_000_000


class SlackConnector:
    """Threads, and the days of what was said outside of threads, of one workspace."""

    source_type: ClassVar[str] = "slack"

    def __init__(self, config: SourceConfig) -> None:
        options = config.options
        if bool(options.get("root")) == bool(options.get("url")):
            raise InputError("a Slack source needs a root or a url, and not both", code="source.invalid")
        self._config = config
        self._held: Listing | None = None
        self._latest: Listing | None = None
        self._reader: SlackSource | None = None

    def fetch(self, cursor: str) -> Iterator[Fetched]:
        """List threads and days by their last activity, oldest first, and what cannot be read, with the reason.

        The two passes of one run see one state of the workspace: a full listing is given out twice, then read anew.
        """
        after = _position(cursor)
        yield from _given(self._listing(after[0]), after)

    def refetch(self, external_ids: Sequence[str]) -> Iterator[Fetched]:
        """List these threads and days with their files, as they are now; like a full listing, given out twice."""
        yield from _given(self._listing(-1, frozenset(external_ids)), (-1, ""))

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        """Make the document of a thread or day, whose author is who began it, or of a file shared in one."""
        meta = item.meta
        document = document_of(self._config, item, parsed, content_sha256, meta["permalink"])
        document = replace(
            document, updated_at=item.modified_at, meta={**parsed.meta, "channel": meta["channel"]}
        )
        if "created_us" not in meta:
            edges = tuple(replace(edge, key=edge.target) for edge in parsed.edges)
            return replace(document, title=document.title or f"#{meta['channel']}", edges=edges)
        return replace(
            document,
            title=meta["title"] or document.title or meta["name"],
            author=meta["author"] or document.author,
            created_at=instant(int(meta["created_us"])),
            names=(Name(EdgeSpace.ATTACHMENT, item.external_id),),
        )

    def read(self, item: Item, max_bytes: int) -> bytes:
        """Return the content of a file: from the export, or from Slack; raises Unparsable with the reason why not."""
        if self._reader is None:
            self._reader = self._source()
            weakref.finalize(self, self._reader.close)
        return self._reader.content(item, max_bytes)

    def acls(self, item: Item) -> Acl:
        """Let in the groups that the channel is open to; nobody when its members are unknown."""
        groups = item.meta["viewers"].split()
        return Acl(frozenset(Grant(GrantKind.GROUP, group) for group in groups)) if groups else NOBODY

    def memberships(self) -> Iterable[Membership]:
        """List the members of the workspace, of its private channels and of its user groups."""
        if self._latest is not None:
            return memberships(self._latest.workspace)
        with closing(self._source()) as source:
            return memberships(source.workspace())

    def cursor(self, items: Sequence[Item]) -> str:
        """Return the last item's place in the order of activity."""
        return f"{items[-1].meta['rank_us']}|{items[-1].external_id}" if items else ""

    def webhook(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """Verify an Events API request by its signature and age, and say which items it changes."""
        verify(settings().slack_signing_secret.get_secret_value(), headers, body)
        return read_event(body)

    def _listing(self, since_us: int, wanted: frozenset[str] | None = None) -> Listing:
        held, self._held = self._held, None
        if held is not None and since_us < 0 and held.wanted == wanted:
            return held
        with closing(self._source()) as source:
            listing = Listing(source, max(0, since_us - TAIL_US), wanted)
        self._latest = listing
        self._held = listing if since_us < 0 else None
        return listing

    def _source(self) -> SlackSource:
        options, token = self._config.options, settings().slack_token.get_secret_value()
        if url := options.get("url"):
            from connectors.slack_web import SlackWeb

            return SlackWeb(url, token)
        from connectors.slack_export import SlackExport

        downloads = None
        if options.get("download") == "yes":
            from connectors.slack_download import Downloads

            downloads = Downloads(token)
        return SlackExport(Path(options["root"]), options.get("domain", ""), downloads)


def _given(listing: Listing, after: tuple[int, str]) -> Iterator[Fetched]:
    yield from listing.failures
    yield from listing.skipped
    yield from listing.items(after)


def _position(cursor: str) -> tuple[int, str]:
    """Read a cursor; raises InputError for one of another connector."""
    if not cursor:
        return (-1, "")
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InputError(f"not a cursor of a Slack source: {cursor!r}", code="cursor.invalid")
    return int(match[1]), match[2]
