"""`cortex eval permissions`: random worlds, searched as everybody, against SpiceDB, an oracle and a physical twin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cortex.chunks import IndexPoint
from cortex.documents import GrantKind
from cortex.errors import ChecksUnavailable
from cortex.evidence import Hit, Question
from cortex.ids import document_id
from cortex.ports.ingest import IndexWriter
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.ingest import LocalWork
from data_jobs.parts import Models, Stores, build_models, deliver_queued, open_catalog, open_stores_for
from data_jobs.run import Load, SyncRun
from data_jobs.stages.parse import ParseStage
from eval.twin_index import physical_twin
from eval.world_source import WorldConnector, world_config
from eval.worlds import World, may_view, random_world
from retrieval.path import Parts, search
from serve_apps.parts import open_parts

_DEPTH = 100  # more than any world holds
_N_EXAMPLES = 10
_TRIES = 10


@dataclass(slots=True)
class Findings:
    """What was wrong, counted, with the first examples by seed; `closed` counts requests refused while SpiceDB lagged."""

    worlds: int = 0
    searches: int = 0
    leaks: int = 0
    missing: int = 0
    differences: int = 0
    late: int = 0
    closed: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, n: int, example: str) -> None:
        """Count findings of a kind and keep the first examples."""
        if n:
            setattr(self, kind, getattr(self, kind) + n)
            if len(self.examples) < _N_EXAMPLES:
                self.examples.append(f"{kind}: {example}")


class RecordingIndex:
    """The real index writer, which also remembers the points, so that a physical twin can be filled with them."""

    def __init__(self, index: IndexWriter) -> None:
        self._index = index
        self.points: dict[str, list[IndexPoint]] = {}

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Insert the points and remember them by document."""
        for point in points:
            self.points.setdefault(point.document_id, []).append(point)
        self._index.upsert(points)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


class PermissionJudge:
    """Loads worlds through ordinary ingest and searches them through the ordinary path."""

    def __init__(
        self, settings: Settings, parts: Parts, stores: Stores, models: Models, parse: ParseStage
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._recording = RecordingIndex(stores.index)
        self._stores = replace(stores, index=self._recording)
        self._models = models
        self._parse = parse
        self.findings = Findings()

    async def judge(self, seed: int) -> None:
        """Load one world, search it as everybody, compare one reader with a physical twin, remove one member."""
        world = random_world(seed)
        await asyncio.to_thread(self._load, world)
        for user_id in world.user_ids:
            for query in world.queries:
                await self._compare(world, user_id, query, "leaks")
        await self._compare_with_twin(world, world.user_ids[seed % len(world.user_ids)], seed)
        await self._remove_a_member(world)
        self.findings.worlds += 1

    def _load(self, world: World) -> None:
        config = world_config(world)
        connector = WorldConnector(config, world)
        self._stores.catalog.ensure_users(world.tenant_id, world.user_ids)
        version = self._models.embedder.version
        load = Load(config=config, connector=connector, recipe="world", embedding_model_version=version)
        work = LocalWork(self._settings, connector, self._parse, lambda: self._stores, self._models)
        SyncRun(load, self._stores.catalog).run(work)
        deliver_queued(self._settings)

    async def _search(self, parts: Parts, world: World, user_id: str, query: str) -> list[Hit]:
        self.findings.searches += 1
        principal = Principal(world.tenant_id, user_id)
        result = await search(parts, principal, Question(query, k=10, depth=_DEPTH))
        return list(result.hits)

    async def _compare(self, world: World, user_id: str, query: str, kind: str) -> None:
        """Search as one person; what is found must be what the oracle and SpiceDB allow, no more and no less."""
        found = {hit.document_id for hit in await self._search(self._parts, world, user_id, query)}
        ids = _ids(world)
        wanted = {
            ids[document.name] for document in world.documents if may_view(world, user_id, document.acl)
        }
        token = await self._parts.catalog.permission_token()
        allowed = await self._parts.checker.allowed(
            Principal(world.tenant_id, user_id), list(ids.values()), token
        )
        where = f"{world.tenant_id}, {user_id}, {query!r}"
        self.findings.note(kind, len(found - wanted) + len(found - allowed), where)
        self.findings.note("missing", len(wanted - found) + len(allowed - found), where)

    async def _compare_with_twin(self, world: World, user_id: str, seed: int) -> None:
        """Compare order and scores with an index that holds nothing but what the reader may see."""
        ids = _ids(world)
        visible = [ids[d.name] for d in world.documents if may_view(world, user_id, d.acl)]
        points = [point for document in visible for point in self._recording.points[document]]
        alias = f"twin-{seed}"
        async with physical_twin(self._settings, alias, self._models.embedder, points) as index:
            twin = replace(self._parts, index=index)
            for query in world.queries:
                ours = await self._search(self._parts, world, user_id, query)
                theirs = await self._search(twin, world, user_id, query)
                same = [(h.chunk_id, h.score, h.lanes) for h in ours] == [
                    (h.chunk_id, h.score, h.lanes) for h in theirs
                ]
                self.findings.note("differences", int(not same), f"{world.tenant_id}, {user_id}, {query!r}")

    async def _remove_a_member(self, world: World) -> None:
        """Remove one person from a group; the very next request must follow."""
        edge = next(edge for edge in world.memberships if edge.member.kind is GrantKind.USER)
        await asyncio.to_thread(self._stores.catalog.remove_membership, world.tenant_id, edge)
        # Closed until SpiceDB has acknowledged is right too, but what is then shown must be exactly right.
        smaller = replace(world, memberships=tuple(e for e in world.memberships if e != edge))
        for _ in range(_TRIES):
            with suppress(ChecksUnavailable):
                await self._compare(smaller, edge.member.name, world.queries[0], "late")
                return
            self.findings.closed += 1
        self.findings.note("missing", 1, f"{world.tenant_id}: checks stayed closed after a removal")


def evaluate_permissions(
    settings: Settings, n_worlds: int, seed: int, on_progress: Callable[[str, int, int], None]
) -> Findings:
    """Judge worlds in the scratch home that `settings` names."""
    return asyncio.run(_judge_all(settings, range(seed, seed + n_worlds), on_progress))


async def _judge_all(
    settings: Settings, seeds: range, on_progress: Callable[[str, int, int], None]
) -> Findings:
    models = build_models(settings)
    with open_catalog(settings) as catalog, ParseStage(settings) as parse:
        stores = open_stores_for(models, settings, catalog)
        async with open_parts(settings) as parts:
            judge = PermissionJudge(settings, parts, stores, models, parse)
            for number, seed in enumerate(seeds, 1):
                await judge.judge(seed)
                on_progress("worlds", number, len(seeds))
    return judge.findings


def as_document(findings: Findings) -> dict[str, Any]:
    """State the findings as the JSON document of the command."""
    wrong = findings.leaks + findings.missing + findings.differences + findings.late
    return {**asdict(findings), "is_clean": wrong == 0}


def _ids(world: World) -> dict[str, str]:
    config = world_config(world)
    return {d.name: document_id(config.tenant_id, config.source_id, d.name) for d in world.documents}
