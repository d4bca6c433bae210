"""Fingerprints: how a run sees, without reading it, that a document is indexed as it is and as settings want it.

A fingerprint is what the connector says of the item's state, then the recipe: a hash of all that decides what chunks
are made of the content. Another state means the content is compared; another recipe means it is made again.
"""

from __future__ import annotations

import json

from cortex.documents import Item
from cortex.ids import sha256_hex
from cortex.ports.connectors import SourceConfig
from cortex.ports.models import LexicalEncoder
from cortex.settings import Settings
from data_jobs.stages.parse import PARSER_VERSION

# Change it with any change to group, chunk or upsert that should reach what is already indexed.
PIPELINE_VERSION = 1


def recipe_of(config: SourceConfig, settings: Settings, lexical: LexicalEncoder) -> str:
    """Hash what decides a document's chunks and payload, the embedding model aside (the catalog keeps its version)."""
    parts = [
        [PIPELINE_VERSION, PARSER_VERSION],
        config.collection,
        settings.chunk_target_tokens,
        settings.chunk_max_tokens,
        settings.atomic_note_tokens,
        settings.embedding_max_tokens,
        lexical.version,
        [settings.bm25_k1, settings.bm25_b, settings.bm25_average_tokens],
    ]
    return sha256_hex(json.dumps(parts).encode())[:12]


def fingerprint_of(item: Item, recipe: str) -> str:
    """Return the fingerprint of an item; its content counts where the connector states none."""
    state = item.meta.get("fingerprint") or (sha256_hex(item.content) if item.content is not None else "")
    return f"{state}|{recipe}"


def has_same_recipe(one: str, other: str) -> bool:
    """Say whether two fingerprints differ at most in the item's state."""
    return one.rpartition("|")[2] == other.rpartition("|")[2]
