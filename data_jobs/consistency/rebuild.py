"""Rebuild: points of a shown document, made again from its stored content, under the ids that the catalog has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adapters.catalog.shown import ShownDocument, holding_shown
from cortex.chunks import Chunk, IndexPoint
from cortex.documents import ParsedBody
from cortex.errors import Corrupt, NotFound, Unparsable
from cortex.settings import Settings
from data_jobs.parts import Models, Stores
from data_jobs.stages.chunk import ChunkLimits, ChunkStage
from data_jobs.stages.embed import EmbedStage
from data_jobs.stages.parse import ParseStage
from data_jobs.work import CHUNKS_PER_BATCH


class PointBuilder:
    """Makes points of single documents. The document's row is held meanwhile, so that its access cannot change."""

    def __init__(self, settings: Settings, stores: Stores, models: Models, parse: ParseStage) -> None:
        self._url = settings.postgres_url
        self._stores = stores
        self._parse = parse
        self._version = models.embedder.version
        self._chunk = ChunkStage(
            ChunkLimits.from_settings(settings), models.embedder.count_tokens, models.embedder.version
        )
        self._embed = EmbedStage(models.embedder, models.lexical)

    def rebuild(self, document_id: str, chunk_ids: Sequence[str]) -> bool:
        """Write some points of a document; False when its chunks cannot be cut again as the catalog has them."""
        with holding_shown(self._url, document_id) as shown:
            if shown is None:
                return True  # gone meanwhile, and its points with it
            wanted = {chunk_id for chunk_id in chunk_ids if chunk_id in shown.texts}
            chunks = [chunk for chunk in self._chunks(shown) if chunk.chunk_id in wanted]
            if {chunk.chunk_id: chunk.text for chunk in chunks} != {
                chunk_id: shown.texts[chunk_id] for chunk_id in wanted
            }:
                return False
            for start in range(0, len(chunks), CHUNKS_PER_BATCH):
                self._stores.index.upsert(self._points(shown, chunks[start : start + CHUNKS_PER_BATCH]))
        return True

    def _chunks(self, shown: ShownDocument) -> Sequence[Chunk]:
        """Cut the stored content again; empty where that cannot be."""
        if shown.embedding_model_version != self._version:
            return ()
        try:
            content = self._stores.objects.get(shown.document.content_sha256)
        except (NotFound, Corrupt):
            return ()
        for name in _names(shown.document.external_id):
            parsed = self._parse.parse(content, name, shown.document.media_type)
            chunks = self._cut(shown, parsed) if isinstance(parsed, ParsedBody) else ()
            if {chunk.chunk_id: chunk.text for chunk in chunks} == dict(shown.texts):
                return chunks
        return ()

    def _cut(self, shown: ShownDocument, parsed: ParsedBody) -> Sequence[Chunk]:
        try:
            return self._chunk.chunk(shown.document, parsed)
        except Unparsable:
            return ()

    def _points(self, shown: ShownDocument, chunks: Sequence[Chunk]) -> list[IndexPoint]:
        document = shown.document
        return [
            IndexPoint(
                chunk_id=chunk.chunk_id,
                document_id=document.document_id,
                tenant_id=document.tenant_id,
                profile_id=shown.profile_id,
                source_id=document.source_id,
                source_type=document.source_type,
                collection=document.collection,
                group_id=shown.group_id,
                updated_at=document.updated_at,
                embedding_model_version=shown.embedding_model_version,
                vectors=vectors,
            )
            for chunk, vectors in zip(chunks, self._embed(chunks), strict=True)
        ]


def _names(external_id: str) -> Iterator[str]:
    """Guess what the content was called: a file its name, an item that came without a file nothing."""
    yield external_id.rpartition("/")[2]
    yield ""
