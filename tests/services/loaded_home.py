"""A home of its own with one loaded folder, whose stores a test may break, empty and compare."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from qdrant_client import QdrantClient

from adapters.spicedb.writer import SpiceDBWriter
from cortex.ports.connectors import SourceConfig
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.ingest import ingest
from data_jobs.sources import files_source
from serve_apps.parts import open_parts
from tests.services.homes import ScratchHome

TENANT = "default"
PEOPLE = ("ana", "bo", "eve")


@dataclass(frozen=True, slots=True)
class LoadedHome:
    """A home with one loaded folder, and ways to break it."""

    scratch: ScratchHome
    settings: Settings
    root: Path

    @property
    def config(self) -> SourceConfig:
        return files_source(self.settings, self.root)

    def load(self) -> None:
        assert ingest(self.settings, self.config).failed == ()

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.settings.postgres_url) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def document(self, name: str) -> tuple[str, str, str]:
        """The id, the only chunk's id and the content's hash of one document."""
        (row,) = self.sql(
            "SELECT d.document_id, c.chunk_id, v.content_sha256 FROM documents d JOIN versions v USING (version_id)"
            " JOIN chunks c ON c.version_id = v.version_id WHERE d.external_id = %s",
            name,
        )
        return row  # type: ignore[return-value]

    def index(self) -> QdrantClient:
        headers = {"api-key": self.settings.qdrant_api_key.get_secret_value()}
        return QdrantClient(url=self.settings.qdrant_url, check_compatibility=False, headers=headers)

    def spicedb(self) -> SpiceDBWriter:
        return SpiceDBWriter(self.settings.spicedb_url, self.settings.spicedb_token.get_secret_value())

    def seen(self) -> dict[str, frozenset[str]]:
        """Which documents each person may see: by the catalog's permit and by SpiceDB, both."""

        async def ask() -> dict[str, frozenset[str]]:
            ids = [row[0] for row in self.sql("SELECT document_id FROM documents WHERE deleted_at IS NULL")]
            found = {}
            async with open_parts(self.settings) as parts:
                for name in PEOPLE:
                    person = Principal(TENANT, name)
                    permit = await parts.catalog.permit(person)
                    token = await parts.catalog.permission_token()
                    allowed = await parts.checker.allowed(person, ids, token)
                    hits = [hit for one in ids for hit in await parts.catalog.document_hits(one, permit)]
                    found[name] = allowed & {hit.document_id for hit in hits}
            return found

        return asyncio.run(ask())


@contextmanager
def loaded_home() -> Iterator[LoadedHome]:
    """Start engines in a new home, load a folder of fifteen documents, and end and delete it all afterwards."""
    scratch = ScratchHome(Path(tempfile.mkdtemp(prefix="cortex-test-")))
    root = Path(tempfile.mkdtemp(prefix="cortex-test-docs-"))
    groups = "groups: {eng: {users: [bo]}, all: {users: [ana, bo, eve]}}\n"
    (root / ".cortex-access.yaml").write_text("viewers: {users: [ana]}\n" + groups)
    for number in range(12):
        (root / f"page-{number}.md").write_text(
            f"# Page {number}\n\nNumber {number} speaks of wing {number**3}.\n"
        )
    for folder, viewers in (
        ("eng", "{groups: [eng]}"),
        ("open", "{groups: [all]}"),
        ("shut", "{users: [eve]}"),
    ):
        (root / folder).mkdir()
        (root / folder / ".cortex-access.yaml").write_text(f"viewers: {viewers}\n")
        (root / folder / "plan.md").write_text(f"The plan of {folder} is to move the queue.")
    try:
        scratch.up("postgres", "qdrant", "spicedb")
        made = LoadedHome(scratch, scratch.settings(), root)
        made.load()
        yield made
    finally:
        scratch.down()
        shutil.rmtree(scratch.path, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)
