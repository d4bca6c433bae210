"""Prepare: one listed item up to its chunks, by the stages read, parse, normalize, group and chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from cortex.documents import ParsedBody
from cortex.errors import Unparsable
from cortex.ids import sha256_hex
from cortex.ports.connectors import Connector, ContentReader
from cortex.ports.ingest import ObjectStore
from data_jobs.fingerprints import has_same_recipe
from data_jobs.rows import Row
from data_jobs.stages.chunk import ChunkStage
from data_jobs.stages.group import signature
from data_jobs.stages.normalize import normalize
from data_jobs.stages.parse import ParseStage
from data_jobs.stages.read import read


class PrepareStage:
    """Takes rows from their item to their chunks. Text lives only in here and in the chunks it returns."""

    def __init__(
        self,
        connector: Connector,
        parse: ParseStage,
        chunk: ChunkStage,
        objects: ObjectStore,
        max_file_bytes: int,
    ) -> None:
        self._connector = connector
        self._parse = parse
        self._chunk = chunk
        self._objects = objects
        self._max_file_bytes = max_file_bytes

    def __call__(self, row: Row) -> Row:
        """Return the row with document, signature and chunks, or marked unchanged; raises Unparsable."""
        content = self._content(row)
        row = replace(row, content_sha256=sha256_hex(content))
        if is_same_content(row):
            return replace(row.lightened(), is_unchanged=True)
        # An id that is no file name says nothing of the format: then the media type does.
        name = row.item.meta.get("name") or (row.item.external_id.rpartition("/")[2] if row.item.path else "")
        parsed = self._parse.parse(content, name, row.item.media_type)
        if not isinstance(parsed, ParsedBody):
            return row.failed(parsed.code.value, parsed.reason)
        document = normalize(self._connector, row.item, parsed, row.content_sha256)
        chunks = self._chunk.chunk(document, parsed)
        if not chunks:
            raise Unparsable("it holds no text", code="document.no_text")
        self._objects.put(content)
        return replace(
            row.lightened(),
            document=document,
            signature=signature(parsed.body),
            chunks=chunks,
            n_chunks=len(chunks),
        )

    def _content(self, row: Row) -> bytes:
        if row.item.path is None and row.item.content is None:
            return cast(ContentReader, self._connector).read(row.item, self._max_file_bytes)
        return read(row.item, self._max_file_bytes)


def is_same_content(row: Row) -> bool:
    """Say whether the catalog shows this very content, made by the present models and settings."""
    known = row.known
    return (
        known is not None
        and known.is_complete
        and known.content_sha256 == row.content_sha256
        and has_same_recipe(known.fingerprint, row.fingerprint)
    )
