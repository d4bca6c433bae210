"""The sources' desk: registers a folder of this machine, starts its load as a process of its own, and reports on it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adapters.catalog.ingest import PostgresIngestCatalog
from cortex.api import FailureModel, RunModel, SourceModel
from cortex.errors import Conflict, InputError
from cortex.ids import source_id
from cortex.ports.connectors import SourceConfig
from cortex.ports.query import QueryCatalog
from cortex.principals import Principal
from cortex.settings import Settings


@dataclass(frozen=True, slots=True)
class Load:
    """One load that this desk started."""

    process: asyncio.subprocess.Process
    started_at: datetime


class FolderDesk:
    """Port SourceDesk. A load outlives this process: it is a session of its own, and its truth is in the catalog."""

    def __init__(self, settings: Settings, catalog: QueryCatalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._loads: dict[str, Load] = {}

    async def sources(self, tenant_id: str) -> list[SourceModel]:
        """List the tenant's sources with their last runs, including a load that has not reached the catalog yet."""
        rows = await asyncio.to_thread(self._listed, tenant_id)
        return [self._with_load(_source(row)) for row in rows]

    async def add_folder(self, principal: Principal, path: str, collection: str) -> SourceModel:
        """Register a folder and start loading it; raises InputError, or Conflict while it is being loaded."""
        root = await asyncio.to_thread(readable_folder, self._settings, path)
        config = folder_source(principal.tenant_id, root, collection)
        load = self._loads.get(config.source_id)
        if load is not None and load.process.returncode is None:
            raise Conflict(
                "this folder is being loaded already", code="run.active", hint="watch it in the list"
            )
        await asyncio.to_thread(self._register, config)
        await self._catalog.audit(principal, "source.add", {"source_id": config.source_id})
        self._loads[config.source_id] = Load(await self._start(config), datetime.now(UTC))
        return self._with_load(
            SourceModel(
                source_id=config.source_id,
                source_type=config.source_type,
                name=config.name,
                collection=collection,
                n_documents=0,
            )
        )

    async def _start(self, config: SourceConfig) -> asyncio.subprocess.Process:
        self._settings.logs_path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._settings.logs_path / f"load-{config.source_id}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "data_jobs.ray_ingest", "--source", config.source_id),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _with_load(self, source: SourceModel) -> SourceModel:
        load = self._loads.get(source.source_id)
        if load is None or (source.run is not None and source.run.started_at >= load.started_at):
            return source
        code = load.process.returncode
        if code == 0:
            return source
        reason = f"the load ended with exit code {code}; its log is logs/load-{source.source_id}.log"
        run = RunModel(
            run_id="",
            status="running" if code is None else "failed",
            started_at=load.started_at,
            finished_at=None,
            counts={},
            failures=[] if code is None else [FailureModel(path="", code="run.failed", reason=reason)],
        )
        return source.model_copy(update={"run": run})

    def _listed(self, tenant_id: str) -> list[Mapping[str, Any]]:
        catalog = PostgresIngestCatalog(self._settings.postgres_url)
        try:
            return catalog.list_sources(tenant_id)
        finally:
            catalog.close()

    def _register(self, config: SourceConfig) -> None:
        catalog = PostgresIngestCatalog(self._settings.postgres_url)
        try:
            catalog.ensure_source(config)
        finally:
            catalog.close()


def readable_folder(settings: Settings, path: str) -> Path:
    """Resolve a folder that may be loaded; never one that holds Cortex's own keys and databases."""
    given = Path(path)
    if not given.is_absolute():
        raise InputError("the folder must be an absolute path", code="folder.relative", hint="/srv/handbook")
    try:
        root = given.resolve(strict=True)
        is_folder = root.is_dir()
    except (OSError, RuntimeError):
        is_folder = False
    if not is_folder:
        raise InputError("there is no such folder on the server's machine", code="source.unreadable")
    home = settings.home.resolve()
    if home == root or home in root.parents or root in home.parents:
        raise InputError("this folder holds Cortex's own data", code="folder.own")
    return root


def folder_source(tenant_id: str, root: Path, collection: str) -> SourceConfig:
    """Describe a folder as a source, as `cortex ingest files` does: the same path is the same source."""
    name = str(root)
    options = {"root": name, "access": "posix"}
    return SourceConfig(tenant_id, source_id(tenant_id, "files", name), "files", name, collection, options)


def _source(row: Mapping[str, Any]) -> SourceModel:
    return SourceModel.model_validate({name: row[name] for name in SourceModel.model_fields})
