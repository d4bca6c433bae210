"""The part of normalize that is alike everywhere: identity and provenance of an item's document."""

from __future__ import annotations

from cortex.documents import Document, Item, ParsedBody
from cortex.ids import document_id
from cortex.ports.connectors import SourceConfig


def document_of(
    config: SourceConfig, item: Item, parsed: ParsedBody, content_sha256: str, permalink: str
) -> Document:
    """Make an item's document with what was found inside of it; its connector replaces what it knows better."""
    return Document(
        document_id=document_id(config.tenant_id, config.source_id, item.external_id),
        tenant_id=config.tenant_id,
        source_id=config.source_id,
        external_id=item.external_id,
        source_type=config.source_type,
        title=parsed.title.strip(),
        media_type=item.media_type,
        content_sha256=content_sha256,
        permalink=permalink,
        author=parsed.author,
        created_at=parsed.created_at,
        updated_at=parsed.updated_at or item.modified_at,
        language=parsed.language,
        collection=config.collection,
        meta=parsed.meta,
    )
