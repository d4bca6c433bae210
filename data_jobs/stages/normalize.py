"""Normalize: the connector's own view of a parsed item: identity, provenance and metadata.

Reads: item, parsed, content_sha256. Writes: document.
"""

from __future__ import annotations

from dataclasses import replace

from cortex.documents import Document, Item, ParsedBody
from cortex.ports.connectors import Connector

# Far above any real title; a paragraph that a parser took for a heading stays out of every result list.
_MAX_TITLE_CHARS = 300


def normalize(connector: Connector, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
    """Make the document of a parsed item, its title on one line of bounded length."""
    document = connector.normalize(item, parsed, content_sha256)
    return replace(document, title=" ".join(document.title.split())[:_MAX_TITLE_CHARS])
