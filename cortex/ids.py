"""Identifiers: how ids are derived, so that the same content gets the same id after any crash."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid

# One namespace for everything Cortex names; changing it would orphan every stored id.
NAMESPACE = uuid.UUID("6f1c2c1e-6f0e-5b53-9a3a-0c0a7e6b2d11")

_LONGEST_OBJECT_ID = 1_000
_SAFE = re.compile(r"[A-Za-z0-9/_|\-+]{1,120}")


def sha256_hex(content: bytes) -> str:
    """Hash bytes to the 64 hex digits that address content."""
    return hashlib.sha256(content).hexdigest()


def source_id(tenant_id: str, source_type: str, name: str) -> str:
    """Derive the id of a source from its tenant, type and name."""
    return str(uuid.uuid5(NAMESPACE, f"source\x00{tenant_id}\x00{source_type}\x00{name}"))


def document_id(tenant_id: str, source_id: str, external_id: str) -> str:
    """Derive the id of a document from where it lives; its content may change, its id does not."""
    return str(uuid.uuid5(NAMESPACE, f"document\x00{tenant_id}\x00{source_id}\x00{external_id}"))


def chunk_id(document_id: str, content_sha256: str, ordinal: int, embedding_model_version: str) -> str:
    """Derive the id of a chunk from its document, that document's content, its place and the model that embeds it."""
    return str(
        uuid.uuid5(
            NAMESPACE, f"chunk\x00{document_id}\x00{content_sha256}\x00{ordinal}\x00{embedding_model_version}"
        )
    )


def object_id(text: str) -> str:
    """Encode any text, one to one, as a SpiceDB object id (letters, digits and `/ _ | - = +`).

    Texts that are safe stay readable; others become `=` and unpadded URL-safe base64 (`=` never starts a safe text).
    """
    if _SAFE.fullmatch(text):
        return text
    return "=" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def tenant_object_id(tenant_id: str, name: str) -> str:
    """Encode a tenant's name of something as a SpiceDB object id that no other tenant can produce.

    The empty name stands for everyone in the tenant. Tenant ids contain neither `/` nor `|`. Ids longer than SpiceDB
    takes (1,024 characters) are replaced by their hash.
    """
    encoded = object_id(f"{tenant_id}/{name}" if name else f"{tenant_id}|everyone")
    return encoded if len(encoded) <= _LONGEST_OBJECT_ID else f"=={sha256_hex(encoded.encode())}"
