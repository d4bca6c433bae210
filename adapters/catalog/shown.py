"""One shown document as its points need it, held so that nobody changes its text or its access meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries
from cortex.documents import Document

_SQL = queries("inventory")


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document's shown version: what its points say, and the text of its chunks by id."""

    document: Document
    profile_id: int
    group_id: str
    embedding_model_version: str
    texts: Mapping[str, str]


@contextmanager
def holding_shown(url: str, document_id: str) -> Iterator[ShownDocument | None]:
    """Give a document's shown version, None when there is none, and hold its row until the block ends."""
    with translated(), psycopg.connect(url, options="-c timezone=UTC") as connection:
        row = connection.execute(_SQL["shown_document"], {"document_id": document_id}).fetchone()
        if row is None:
            yield None
            return
        (
            tenant,
            profile,
            source,
            external,
            kind,
            title,
            media,
            sha,
            link,
            collection,
            group,
            updated,
            model,
            version,
        ) = row
        texts: dict[str, str] = dict(
            connection.execute(_SQL["shown_chunks"], {"version_id": version}).fetchall()
        )
        document = Document(
            document_id, tenant, source, external, kind, title, media, sha, link,
            updated_at=updated, collection=collection,
        )  # fmt: skip
        yield ShownDocument(document, profile, group, model, texts)


def forget_fingerprints(url: str, document_ids: Sequence[str]) -> None:
    """Let the next load of their sources make these documents again, whatever is known of them."""
    with translated(), psycopg.connect(url) as connection:
        connection.execute(_SQL["forget_fingerprints"], {"document_ids": list(document_ids)})
