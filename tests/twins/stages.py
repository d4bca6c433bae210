"""Twins of Serve handles: calls go to plain objects through real replicas' code, and every value crosses pickled."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from retrieval.path import Parts
from retrieval.recheck import CatalogReaders
from serve_apps.handles import StageClient
from serve_apps.metrics import StageMetrics
from serve_apps.placements import STAGES, CallLimits
from serve_apps.remote import (
    RemoteChecker,
    RemoteEmbedder,
    RemoteGenerator,
    RemoteIndex,
    RemoteReaders,
    RemoteReranker,
    RemoteUnderstanding,
    StagedCatalog,
)
from serve_apps.replica import Answers
from serve_apps.stages import ranker

Calls = Mapping[str, Callable[..., Any]]


def sent(value: Any) -> Any:
    """What the other process gets of a value."""
    return pickle.loads(pickle.dumps(value))


@dataclass
class TwinHandle:
    """A DeploymentHandle. `failures` are raised in turn, one a call, before anything is answered.

    `delay_s` holds every answer back, and the first word of every stream; `lost_after` loses the replica once so many
    pieces of a stream have come, that word included.
    """

    calls: Calls = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    delay_s: float = 0.0
    lost_after: tuple[int, BaseException] | None = None
    asked: list[str] = field(default_factory=list)
    n_begun: int = 0
    n_cancelled: int = 0
    name: str = "twin"

    def options(self, *, method_name: str, stream: bool = False, **_: str) -> TwinMethod:
        return TwinMethod(self, Answers(self.name, self.calls), method_name)


@dataclass
class TwinMethod:
    """One method of a handle."""

    handle: TwinHandle
    answers: Answers
    name: str

    def remote(self, call: str, arguments: tuple[Any, ...], trace: dict[str, str]) -> TwinAnswer | TwinPieces:
        self.handle.asked.append(call)
        made = getattr(self.answers, self.name)(call, sent(arguments), sent(trace))
        return TwinAnswer(self.handle, made) if self.name == "call" else TwinPieces(self.handle, made)


@dataclass
class TwinAnswer:
    """A DeploymentResponse."""

    handle: TwinHandle
    answering: Any

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answered().__await__()

    async def _answered(self) -> Any:
        if self.handle.failures:
            self.answering.close()
            raise self.handle.failures.pop(0)
        await asyncio.sleep(self.handle.delay_s)
        return sent(await self.answering)

    def cancel(self) -> None:
        self.handle.n_cancelled += 1
        self.answering.close()


@dataclass
class TwinPieces:
    """A DeploymentResponseGenerator: cancelling it cancels the task that reads it, as in the replica."""

    handle: TwinHandle
    answering: Any
    n_pieces: int = 0

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self.handle.failures:
            raise self.handle.failures.pop(0)
        if self.handle.lost_after and self.n_pieces == self.handle.lost_after[0]:
            raise self.handle.lost_after[1]
        if self.n_pieces == 0:
            await asyncio.sleep(self.handle.delay_s)
            self.handle.n_begun += 1
        self.n_pieces += 1
        return sent(await anext(self.answering))

    def cancel(self) -> None:
        self.handle.n_cancelled += 1


def client(
    handle: TwinHandle, *, timeout_s: float = 5.0, attempts: int = 3, metrics: StageMetrics | None = None
) -> StageClient:
    """Make a client of a stage over a twin."""
    return StageClient(handle.name, handle, CallLimits(timeout_s, attempts), metrics)  # type: ignore[arg-type]


def calls_of(parts: Parts) -> dict[str, Calls]:
    """What each stage would answer over these parts."""
    catalog, checker = parts.catalog, parts.checker
    readers = CatalogReaders(catalog, checker, parts.plan.recheck_round)
    return {
        "permissions": {
            "permit": catalog.permit,
            "fresh_permit": catalog.fresh_permit,
            "permission_token": catalog.permission_token,
        },
        "understanding": {"understand": parts.understanding.understand},
        "embedding": {
            "embed_queries": parts.embedder.embed_queries,
            "embed_documents": parts.embedder.embed_documents,
        },
        "search": {"search": parts.index.search, "ping": parts.index.ping},
        "rerank": {"score": parts.reranker.score} if parts.reranker else {},
        "recheck": {
            "rank": ranker(readers, parts.lexical),
            "hydrate": catalog.hydrate,
            "document_hits": catalog.document_hits,
            "allowed": checker.allowed,
            "ping": checker.ping,
        },
        "generation": {"stream": parts.generator.stream} if parts.generator else {},
    }


def staged(parts: Parts) -> Parts:
    """Put a handle between the query path and each of its parts."""
    answered = calls_of(parts)
    stages = {name: client(TwinHandle(answered[name], name=name)) for name in STAGES}
    return replace(
        parts,
        catalog=StagedCatalog(stages["permissions"], stages["recheck"], parts.catalog),
        index=RemoteIndex(stages["search"]),
        checker=RemoteChecker(stages["recheck"]),
        readers=RemoteReaders(stages["recheck"]),
        embedder=RemoteEmbedder(stages["embedding"]),
        understanding=RemoteUnderstanding(stages["understanding"]),
        reranker=RemoteReranker(stages["rerank"]) if parts.reranker else None,
        generator=RemoteGenerator(stages["generation"], parts.generator.model) if parts.generator else None,
    )
