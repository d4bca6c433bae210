"""How tests read a vault: list it, parse its files in this process, and resolve its links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from connectors.vault import VaultConnector
from cortex.documents import Document, Item
from cortex.edges import ResolvedEdge
from cortex.errors import CortexError
from cortex.ids import sha256_hex
from cortex.ports.connectors import FetchFailure, SourceConfig
from data_jobs.parsers.registry import parse
from data_jobs.stages.read import read
from tests.twins.edges import resolve


@dataclass(frozen=True, slots=True)
class Vault:
    """What became of every entry."""

    documents: tuple[Document, ...]
    failed: dict[str, str]

    @property
    def edges(self) -> list[ResolvedEdge]:
        return resolve(self.documents)

    def leads(self) -> list[tuple[str, str, str]]:
        """Each link but tags as (its words, state, target)."""
        return [
            (edge.edge.target, str(edge.state), edge.target_external_id)
            for edge in self.edges
            if edge.edge.kind != "tag"
        ]


def vault(root: Path, **options: str) -> VaultConnector:
    return VaultConnector(SourceConfig("acme", "s", "vault", "notes", options={"root": str(root), **options}))


def read_vault(root: Path) -> Vault:
    """List and parse a vault."""
    connector = vault(root)
    documents: list[Document] = []
    failed: dict[str, str] = {}
    for found in connector.fetch(""):
        if isinstance(found, FetchFailure):
            failed[found.external_id] = found.code
        if not isinstance(found, Item):
            continue
        try:
            documents.append(_document(connector, found))
        except CortexError as error:
            failed[found.external_id] = error.error_code
    return Vault(tuple(documents), failed)


def _document(connector: VaultConnector, item: Item) -> Document:
    content = read(item, 100_000_000)
    parsed = parse(content, item.external_id.rpartition("/")[2], item.media_type)
    assert parsed.body.encode() == content or parsed.meta["byte_ranges"] == "decoded"
    return connector.normalize(item, parsed, sha256_hex(content))
