"""Ports of sources: a connector behind five verbs, and what it is configured with and reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from cortex.documents import Acl, Document, Item, Membership, ParsedBody


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One configured source: its type, the name the operator gave it, and the connector's own options."""

    tenant_id: str
    source_id: str
    source_type: str
    name: str
    collection: str = "default"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """What a verified push says: these items changed or went away, or who belongs to what did.

    `push_id` is the sender's own id of it, the same when it is sent again. `reply` is what the sender waits to read.
    `EVERYTHING` among the changed ids means that only a whole load will do.
    """

    changed_ids: tuple[str, ...] = ()
    removed_ids: tuple[str, ...] = ()
    changes_access: bool = False
    push_id: str = ""
    reply: str = ""


EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class FetchFailure:
    """An entry that fetch could not list (unreadable directory, symlink loop): it goes to the report, not to the index."""

    external_id: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """What a source holds and is left out on purpose: how many of a kind, and why. Not a failure: nothing is missing.

    `example` is the place of one of them, for whoever wonders.
    """

    code: str
    reason: str
    n: int = 1
    example: str = ""


Fetched = Item | FetchFailure | Skipped


class Connector(Protocol):
    """A source system behind five verbs. Built with one `SourceConfig`; holds no state between calls."""

    source_type: ClassVar[str]

    def __init__(self, config: SourceConfig) -> None: ...

    def fetch(self, cursor: str) -> Iterator[Fetched]:
        """List items changed since `cursor` (empty: all), in a stable order, without reading their content."""

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        """Make the document of a parsed item. Deterministic: the same input gives the same document."""

    def acls(self, item: Item) -> Acl:
        """Say who may view the item at its source; `NOBODY` when unsure."""

    def memberships(self) -> Iterable[Membership]:
        """List the group edges the source knows; empty where groups come from elsewhere."""

    def cursor(self, items: Sequence[Item]) -> str:
        """Return the cursor after these items, so that the next fetch neither loses nor repeats."""

    def webhook(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """Verify and read a push; an unsigned or forged one raises Unauthenticated and yields nothing."""


class ContentReader(Protocol):
    """What a connector offers besides when it lists items without path and content, because fetching those costs."""

    def read(self, item: Item, max_bytes: int) -> bytes:
        """Return an item's content, in any process that built the connector; raises Unparsable with the reason."""


@runtime_checkable
class Refetcher(Protocol):
    """What a connector offers besides when its source can be asked for single items: what pushes name is then read alone."""

    def refetch(self, external_ids: Sequence[str]) -> Iterator[Fetched]:
        """List these items as they are now, and what belongs to them; one that is gone is left out."""
