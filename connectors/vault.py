"""The vault connector: a folder of notes (Obsidian, Foam, Dendron, org-roam, plain Markdown) with their links.

Lists, opens and judges files as the files connector does, options included. It differs in what a note is: its body is
the file's own text, byte for byte, and its links, tags, aliases and ids become edges and names. Nothing is written: a
vault is only ever listed, and its files are opened for reading.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from connectors.files import FilesConnector
from connectors.files_walk import Entry
from connectors.vault_names import names_of, with_key
from cortex.documents import Document, Item, ParsedBody
from cortex.ports.connectors import SourceConfig

_MARKDOWN, _ORG = "text/markdown", "text/org"
_DENDRON_MARK = "dendron.yml"


class VaultConnector(FilesConnector):
    """Notes of a folder, and the other files in it."""

    source_type: ClassVar[str] = "vault"

    def __init__(self, config: SourceConfig) -> None:
        super().__init__(config)
        is_dendron = (self._root / _DENDRON_MARK).is_file()
        self._variants = {_MARKDOWN: "dendron" if is_dendron else "vault", _ORG: "vault"}

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        """Make the document of a file, with the keys of its links and the names under which others link to it."""
        document = super().normalize(item, parsed, content_sha256)
        return replace(
            document,
            media_type=item.media_type.partition(";")[0],
            edges=tuple(with_key(edge, item.external_id) for edge in parsed.edges),
            names=names_of(item.external_id, parsed.names),
        )

    def _item(self, entry: Entry) -> Item:
        """Mark notes, so that parse keeps their text as it is."""
        item = super()._item(entry)
        variant = self._variants.get(item.media_type)
        return replace(item, media_type=f"{item.media_type}; variant={variant}") if variant else item
