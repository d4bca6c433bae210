"""A random world as a source, so that it takes the ordinary way through ingest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from cortex.documents import Acl, Document, Item, Membership, ParsedBody
from cortex.errors import Unauthenticated
from cortex.ids import document_id, source_id
from cortex.ports.connectors import FetchFailure, SourceConfig, WebhookEvent
from eval.worlds import World


class WorldConnector:
    """The five verbs over the documents of one world."""

    source_type: ClassVar[str] = "world"

    def __init__(self, config: SourceConfig, world: World) -> None:
        self._config = config
        self._acls = {document.name: document.acl for document in world.documents}
        self._world = world

    def fetch(self, cursor: str) -> Iterator[Item | FetchFailure]:
        """List the documents in the world's order; a cursor is how many were taken."""
        for document in self._world.documents[int(cursor or 0) :]:
            content = document.text.encode()
            yield Item(document.name, "text/plain", content=content, size_bytes=len(content))

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        """Make the document; its title is its name's first word, alike for all, so that ties occur."""
        config = self._config
        return Document(
            document_id=document_id(config.tenant_id, config.source_id, item.external_id),
            tenant_id=config.tenant_id,
            source_id=config.source_id,
            external_id=item.external_id,
            source_type=self.source_type,
            title=item.external_id.split()[0],
            media_type=item.media_type,
            content_sha256=content_sha256,
            permalink=f"world:{config.tenant_id}/{item.external_id}",
        )

    def acls(self, item: Item) -> Acl:
        """Say who may view the document."""
        return self._acls[item.external_id]

    def memberships(self) -> Iterable[Membership]:
        """List the group edges."""
        return self._world.memberships

    def cursor(self, items: Sequence[Item]) -> str:
        """Return how many were taken."""
        return str(len(items))

    def webhook(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """A world pushes nothing."""
        raise Unauthenticated("a random world sends no pushes")


def world_config(world: World) -> SourceConfig:
    """Configure a world as a source of its own tenant."""
    return SourceConfig(
        tenant_id=world.tenant_id,
        source_id=source_id(world.tenant_id, WorldConnector.source_type, world.tenant_id),
        source_type=WorldConnector.source_type,
        name=world.tenant_id,
    )
