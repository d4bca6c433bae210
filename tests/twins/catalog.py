"""The catalog in memory: IngestCatalog, QueryCatalog and Outbox in one object, as plainly as the words allow.

What SpiceDB must hold is computed from scratch after every change, so there is nothing incremental to get wrong.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from adapters.catalog.cycles import find_cycles, without_cycles
from adapters.catalog.mirror import Tuple, checked_name, member_tuple, relationship, subject
from adapters.catalog.signatures import NEAR_DUPLICATE_SIMILARITY, similarity
from cortex.documents import Acl, Grant, GrantKind, Membership, acl_sha256
from cortex.edges import EdgeState, ResolvedEdge
from cortex.errors import ChecksUnavailable, Conflict, Forbidden, InputError, NotFound, Unauthenticated
from cortex.evidence import Answer, Candidate, Hit, LaneScores, SearchResult
from cortex.ports.connectors import FetchFailure, Skipped, SourceConfig
from cortex.ports.ingest import AclWrite, DocumentWrite, KnownDocument
from cortex.ports.outbox import Backlog, MirrorSnapshot, OutboxEvent, Relationship
from cortex.principals import Permit, Principal
from tests.twins.edges import counted, resolve, selected


@dataclass(slots=True)
class Held:
    """One document: its shown and its staged version, and its access list."""

    tenant_id: str
    source_id: str
    external_id: str
    shown: DocumentWrite | None = None
    staged: DocumentWrite | None = None
    acl: Acl | None = None
    had_acl: bool = False
    is_deleted: bool = False


@dataclass(slots=True)
class Queued:
    """One event of the outbox."""

    event: OutboxEvent
    gates_checks: bool
    is_done: bool = False
    attempts: int = 0
    is_parked: bool = False


@dataclass(slots=True)
class CatalogTwin:
    """See the ports for what each method means."""

    sources: dict[str, SourceConfig] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    documents: dict[str, Held] = field(default_factory=dict)
    profiles: dict[tuple[str, str], tuple[int, Acl]] = field(default_factory=dict)
    edges: set[tuple[str, str, Membership]] = field(default_factory=set)  # tenant, asserting source, edge
    users: set[tuple[str, str]] = field(default_factory=set)
    removed: set[tuple[str, str]] = field(default_factory=set)
    readmitted_s: dict[tuple[str, str], float] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    outbox: list[Queued] = field(default_factory=list)
    token: str = ""
    answers: dict[str, tuple[Principal, Answer]] = field(default_factory=dict)
    feedback: dict[str, tuple[bool, str]] = field(default_factory=dict)
    audits: list[tuple[Principal, str, Mapping[str, Any]]] = field(default_factory=list)

    # ------------------------------------------------------------------------------------------------- sources

    def ensure_source(self, config: SourceConfig) -> None:
        known = self.sources.get(config.source_id)
        if known and known.tenant_id != config.tenant_id:
            raise Conflict("this source id belongs to another tenant")
        self.sources[config.source_id] = config
        self.revisions.setdefault(config.tenant_id, 0)

    def list_sources(self, tenant_id: str) -> list[Mapping[str, Any]]:
        return [
            {
                "source_id": source.source_id,
                "source_type": source.source_type,
                "name": source.name,
                "collection": source.collection,
                "options": dict(source.options),
                "n_documents": sum(
                    held.source_id == source.source_id and held.shown is not None
                    for held in self.documents.values()
                ),
                "run": next(
                    (
                        {name: value for name, value in run.items() if name != "source_id"}
                        for run in reversed(self.runs.values())
                        if run["source_id"] == source.source_id
                    ),
                    None,
                ),
            }
            for source in self.sources.values()
            if source.tenant_id == tenant_id
        ]

    def start_run(self, source_id: str) -> str:
        for run in self.runs.values():
            if run["source_id"] == source_id and run["status"] == "running":
                interrupted = {
                    "path": "",
                    "code": "run.interrupted",
                    "reason": "the run was interrupted",
                }
                run.update(
                    status="failed",
                    finished_at=datetime.now(UTC),
                    failures=[*run["failures"], interrupted],
                )
        run_id = f"run-{len(self.runs)}"
        self.runs[run_id] = {
            "source_id": source_id,
            "run_id": run_id,
            "status": "running",
            "started_at": datetime.now(UTC),
            "finished_at": None,
            "counts": {},
            "failures": [],
            "skipped": [],
        }
        return run_id

    def update_run(self, run_id: str, counts: Mapping[str, int]) -> bool:
        self._run(run_id)["counts"] = dict(counts)
        return bool(self._run(run_id).get("is_unwanted"))

    def request_stop(self, tenant_id: str, run_id: str) -> None:
        run = self._run(run_id)
        if run["status"] != "running" or self.sources[run["source_id"]].tenant_id != tenant_id:
            raise NotFound("there is no such sync run")
        run["is_unwanted"] = True

    def finish_run(
        self,
        run_id: str,
        status: str,
        counts: Mapping[str, int],
        failures: Sequence[FetchFailure],
        skipped: Sequence[Skipped] = (),
    ) -> None:
        listed = [{"path": f.external_id, "code": f.code, "reason": f.reason} for f in failures]
        self._run(run_id).update(
            status=status,
            counts=dict(counts),
            failures=listed,
            skipped=[asdict(kind) for kind in skipped],
            finished_at=datetime.now(UTC),
        )

    def _run(self, run_id: str) -> dict[str, Any]:
        if run_id not in self.runs:
            raise NotFound("there is no such sync run")
        return self.runs[run_id]

    # ----------------------------------------------------------------------------------------------- documents

    def known_documents(self, source_id: str, embedding_model_version: str) -> dict[str, KnownDocument]:
        return {
            held.external_id: KnownDocument(
                document_id,
                held.external_id,
                held.shown.document.content_sha256 if held.shown else "",
                held.shown.fingerprint if held.shown else "",
                acl_sha256(held.acl) if held.acl else "",
                bool(held.shown and held.shown.embedding_model_version == embedding_model_version),
            )
            for document_id, held in self.documents.items()
            if held.source_id == source_id and not held.is_deleted
        }

    def set_fingerprints(self, fingerprints: Mapping[str, str]) -> None:

        for document_id, fingerprint in fingerprints.items():
            held = self.documents[document_id]
            held.shown = replace(held.shown, fingerprint=fingerprint) if held.shown else None

    @contextmanager
    def together(self) -> Iterator[None]:
        before = deepcopy((self.documents, self.profiles, self.outbox))
        try:
            yield
        except BaseException:
            self.documents, self.profiles, self.outbox = before
            raise

    def near_duplicates(self, tenant_id: str, document_id: str, signature: bytes) -> str:
        found = [
            (-similarity(signature, write.signature), other_id, write.near_duplicate_of or other_id)
            for other_id, held in self.documents.items()
            for write in (held.shown, held.staged)
            if write and write.signature and signature
            if held.tenant_id == tenant_id and other_id != document_id
        ]
        best = min(found, default=(0.0, "", ""))
        return best[2] if -best[0] >= NEAR_DUPLICATE_SIMILARITY and best[2] != document_id else ""

    def stage_document(self, write: DocumentWrite) -> None:
        if not write.chunks:
            raise InputError("a document without chunks cannot be staged")
        document = write.document
        held = self._hold(document.document_id, document.tenant_id, document.source_id, document.external_id)
        abandoned, held.staged = held.staged, write
        self._obsolete(held.tenant_id, document.document_id, _ids(abandoned) - _ids(held.shown) - _ids(write))

    def publish_document(self, document_id: str, content_sha256: str) -> tuple[str, ...]:
        held = self.documents.get(document_id)
        if held and not held.staged and held.shown and held.shown.document.content_sha256 == content_sha256:
            return ()
        if not held or not held.staged or held.staged.document.content_sha256 != content_sha256:
            raise Conflict("this version of the document is not staged")
        gone = _ids(held.shown) - _ids(held.staged)
        held.shown, held.staged, held.is_deleted = held.staged, None, False
        return self._obsolete(held.tenant_id, document_id, gone)

    def tombstone(self, document_id: str) -> tuple[str, ...]:
        held = self.documents.get(document_id)
        if not held or held.is_deleted:
            return ()
        gone = _ids(held.shown) | _ids(held.staged)
        with self._telling_spicedb(held.tenant_id, gates_checks=False):
            held.shown = held.staged = held.acl = None
            held.is_deleted = True
        return self._obsolete(held.tenant_id, document_id, gone)

    def count_edges(self, source_id: str) -> dict[EdgeState, int]:
        return counted(self._edges_of(source_id))

    def list_edges(
        self, source_id: str, states: Collection[EdgeState] = (), limit: int | None = None
    ) -> list[ResolvedEdge]:
        return selected(self._edges_of(source_id), states, limit)

    def _edges_of(self, source_id: str) -> list[ResolvedEdge]:
        held = (held for held in self.documents.values() if held.source_id == source_id)
        return resolve(one.shown.document for one in held if one.shown)

    def _hold(self, document_id: str, tenant_id: str, source_id: str, external_id: str) -> Held:
        held = self.documents.setdefault(document_id, Held(tenant_id, source_id, external_id))
        if (held.tenant_id, held.source_id) != (tenant_id, source_id):
            raise Conflict("this document id belongs to another source")
        return held

    def _obsolete(self, tenant_id: str, document_id: str, chunk_ids: set[str]) -> tuple[str, ...]:
        ordered = tuple(sorted(chunk_ids))
        if ordered:
            payload = {"document_id": document_id, "chunk_ids": list(ordered)}
            self._queue("chunks.obsolete", document_id, payload)
        return ordered

    # --------------------------------------------------------------------------------------------- permissions

    def set_acl(self, tenant_id: str, source_id: str, external_id: str, document_id: str, acl: Acl) -> int:
        return self.set_acls(tenant_id, source_id, [AclWrite(external_id, document_id, acl)])[document_id]

    def set_acls(self, tenant_id: str, source_id: str, writes: Sequence[AclWrite]) -> dict[str, int]:
        if len({write.document_id for write in writes}) != len(writes):
            raise InputError("a document appears twice in one batch of access lists")
        result = {}
        for write in writes:
            held = self._hold(write.document_id, tenant_id, source_id, write.external_id)
            is_kept = held.acl is not None and held.acl.is_known and not write.acl.is_known
            if held.acl != write.acl and not is_kept:
                with self._telling_spicedb(tenant_id, gates_checks=held.had_acl):
                    self._intern(tenant_id, write.acl)
                    held.acl, held.had_acl = write.acl, True
                if held.shown or held.staged:
                    payload = {
                        "document_id": write.document_id,
                        "profile_id": self._intern(tenant_id, write.acl),
                    }
                    self._queue("document.profile", write.document_id, payload)
            assert held.acl is not None
            result[write.document_id] = self._intern(tenant_id, held.acl)
        return result

    def _intern(self, tenant_id: str, acl: Acl) -> int:
        for grant in acl.viewers | acl.denied:
            subject(grant)
        key = (tenant_id, acl_sha256(acl))
        if key not in self.profiles:
            self.profiles[key] = (len(self.profiles) + 1, acl)
            self.revisions[tenant_id] += 1
        return self.profiles[key][0]

    def set_memberships(self, tenant_id: str, source_id: str, memberships: Iterable[Membership]) -> int:
        wanted = {
            (tenant_id, source_id, one) for one in memberships if not self._is_removed(tenant_id, one.member)
        }
        present = {edge for edge in self.edges if edge[:2] == (tenant_id, source_id)}
        self._change(tenant_id, (self.edges - present) | wanted)
        return len(wanted ^ present)

    def add_membership(self, tenant_id: str, membership: Membership) -> bool:
        self.revisions.setdefault(tenant_id, 0)
        if self._is_removed(tenant_id, membership.member):
            raise Conflict("this person was removed", code="user.removed")
        return self._change(tenant_id, self.edges | {(tenant_id, "", membership)})

    def remove_membership(self, tenant_id: str, membership: Membership) -> bool:
        return self._change(
            tenant_id, {edge for edge in self.edges if (edge[0], edge[2]) != (tenant_id, membership)}
        )

    def ensure_users(self, tenant_id: str, user_ids: Iterable[str], source_id: str = "") -> None:
        self.revisions.setdefault(tenant_id, 0)
        new = {(tenant_id, checked_name(user_id)) for user_id in user_ids} - self.users - self.removed
        if new:
            with self._telling_spicedb(tenant_id, gates_checks=True):
                self.users |= new
            self.revisions[tenant_id] += 1

    def admit_users(self, tenant_id: str, user_ids: Iterable[str]) -> None:
        back = {(tenant_id, user_id) for user_id in user_ids} & self.removed
        self.removed -= back
        self.readmitted_s |= dict.fromkeys(back, time.time())
        self.ensure_users(tenant_id, user_ids)

    def remove_user(self, tenant_id: str, user_id: str) -> bool:
        if (tenant_id, user_id) not in self.users | self.removed:
            raise NotFound("this person is not registered", code="user.unknown")
        if (tenant_id, user_id) in self.removed:
            return False
        self.removed.add((tenant_id, user_id))
        with self._telling_spicedb(tenant_id, gates_checks=True):
            self.users.discard((tenant_id, user_id))
            self.edges = {edge for edge in self.edges if not self._is_removed(edge[0], edge[2].member)}
        self.revisions[tenant_id] += 1
        return True

    def _is_removed(self, tenant_id: str, member: Grant) -> bool:
        return member.kind is GrantKind.USER and (tenant_id, member.name) in self.removed

    def _change(self, tenant_id: str, edges: set[tuple[str, str, Membership]]) -> bool:
        """Replace the edges; says whether the graph is another one now."""
        if tenant_id not in self.revisions:
            raise NotFound("there is no such tenant")
        for _, _, membership in edges:
            member_tuple(membership)
        before = {(tenant, edge) for tenant, _, edge in self.edges}
        with self._telling_spicedb(tenant_id, gates_checks=True):
            self.edges = edges
        is_changed = before != {(tenant, edge) for tenant, _, edge in edges}
        self.revisions[tenant_id] += is_changed
        return is_changed

    def _tuples(self, tenant_id: str) -> set[Tuple]:
        """What SpiceDB must hold of a tenant, from scratch."""
        edges = {member_tuple(edge) for tenant, _, edge in self.edges if tenant == tenant_id}
        edges |= {
            Tuple("group", "", "member", "user", user) for tenant, user in self.users if tenant == tenant_id
        }
        nestings = [(e.resource_name, e.subject_name) for e in edges if e.subject_type == "group"]
        rows = without_cycles(edges, find_cycles(nestings))
        for (tenant, _), (profile_id, acl) in self.profiles.items():
            for relation, side in (("viewer", acl.viewers), ("denied", acl.denied)):
                if tenant == tenant_id:
                    rows |= {Tuple("profile", str(profile_id), relation, *subject(grant)) for grant in side}
        for document_id, held in self.documents.items():
            if held.tenant_id == tenant_id and held.acl is not None:
                profile_id = self.profiles[tenant_id, acl_sha256(held.acl)][0]
                rows.add(Tuple("document", document_id, "access", "profile", str(profile_id)))
        return rows

    @contextmanager
    def _telling_spicedb(self, tenant_id: str, *, gates_checks: bool) -> Iterator[None]:
        before = self._tuples(tenant_id)
        yield
        after = self._tuples(tenant_id)
        if before != after:
            payload = {
                "delete": [list(astuple(relationship(tenant_id, row))) for row in sorted(before - after)],
                "touch": [list(astuple(relationship(tenant_id, row))) for row in sorted(after - before)],
            }
            self._queue("tuples", "twin", payload, gates_checks)

    # ------------------------------------------------------------------------------------------------- reading

    async def permit(self, principal: Principal) -> Permit:
        person, *readers = principal.audience
        permit = self._expand(person)
        shared = set(permit.profile_ids)
        for reader in readers:
            try:
                shared &= set(self._expand(reader).profile_ids)
            except (Forbidden, Unauthenticated) as error:
                raise Forbidden("a reader is not known here", code="audience.unknown") from error
        return replace(permit, principal=principal, profile_ids=tuple(sorted(shared)))

    async def fresh_permit(self, principal: Principal) -> Permit:
        return replace(await self.permit(principal), token=await self.permission_token())

    def _expand(self, principal: Principal) -> Permit:
        tenant_id, user_id = principal.tenant_id, principal.user_id
        if (tenant_id, user_id) in self.removed:
            raise Unauthenticated("this account was removed", code="user.removed")
        if principal.issued_at_s < int(self.readmitted_s.get((tenant_id, user_id), 0)):
            raise Unauthenticated("this token is older than the removal", code="token.revoked")
        if (tenant_id, user_id) not in self.users:
            raise Forbidden("this account has no access here", code="user.unknown")
        closure = {Grant(GrantKind.USER, user_id), Grant(GrantKind.EVERYONE)}
        while (
            wider := {
                Grant(GrantKind.GROUP, edge.group_name)
                for tenant, _, edge in self.edges
                if tenant == tenant_id and edge.member in closure
            }
            - closure
        ):
            closure |= wider
        profile_ids = sorted(
            profile_id
            for (tenant, _), (profile_id, acl) in self.profiles.items()
            if tenant == tenant_id and acl.viewers & closure and not acl.denied & closure
        )
        return Permit(principal, tuple(profile_ids), self.revisions[tenant_id], self.token)

    async def hydrate(self, candidates: Sequence[Candidate], permit: Permit) -> list[Hit]:
        shown = {
            hit.chunk_id: hit for document_id in self.documents for hit in self._hits(document_id, permit)
        }
        found = [(c, shown[c.chunk_id]) for c in candidates if c.chunk_id in shown]

        return [replace(hit, score=candidate.score, lanes=candidate.lanes) for candidate, hit in found]

    async def document_hits(self, document_id: str, permit: Permit) -> list[Hit]:
        return self._hits(document_id, permit)

    def _hits(self, document_id: str, permit: Permit) -> list[Hit]:
        held = self.documents.get(document_id)
        if not held or not held.shown or not held.acl or held.tenant_id != permit.principal.tenant_id:
            return []
        profile_id = self.profiles[held.tenant_id, acl_sha256(held.acl)][0]
        if profile_id not in permit.profile_ids:
            return []
        write, document = held.shown, held.shown.document
        return [
            Hit(
                chunk_id=chunk.chunk_id,
                document_id=document_id,
                source_id=held.source_id,
                source_type=document.source_type,
                collection=document.collection,
                title=document.title,
                text=chunk.text,
                heading_path=chunk.heading_path,
                anchor=chunk.anchor,
                permalink=document.permalink,
                score=0.0,
                lanes=LaneScores(),
                ordinal=chunk.ordinal,
                byte_start=chunk.byte_start,
                byte_end=chunk.byte_end,
                group_id=write.near_duplicate_of or document_id,
                content_sha256=document.content_sha256,
                profile_id=profile_id,
                author=document.author,
                updated_at=document.updated_at,
            )
            for chunk in sorted(write.chunks, key=lambda chunk: chunk.ordinal)
        ]

    async def permission_token(self) -> str:
        if not self.token or any(queued.gates_checks and not queued.is_done for queued in self.outbox):
            raise ChecksUnavailable("permission changes wait to be applied")
        return self.token

    async def record_answer(
        self, principal: Principal, question: str, result: SearchResult, answer: Answer
    ) -> str:
        answer_id = f"answer-{len(self.answers)}"
        self.answers[answer_id] = (principal, answer)
        return answer_id

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        if answer_id not in self.answers or self.answers[answer_id][0] != principal:
            raise NotFound("there is no such answer")
        self.feedback[answer_id] = (is_helpful, comment)

    async def audit(self, principal: Principal, action: str, fields: Mapping[str, Any]) -> None:
        self.audits.append((principal, action, fields))

    async def ping(self) -> None:
        return

    # -------------------------------------------------------------------------------------------------- outbox

    def lock(self) -> bool:
        return True

    def release(self) -> None:
        return

    def take(self, limit: int, topics: Sequence[str] = ()) -> list[OutboxEvent]:
        return [queued.event for queued in self._waiting(topics)][:limit]

    def acknowledge(self, outbox_ids: Sequence[int], permission_token: str = "") -> None:
        for queued in self.outbox:
            queued.is_done |= queued.event.outbox_id in outbox_ids
        self.token = permission_token or self.token

    def fail(self, outbox_id: int, reason: str, attempts_limit: int) -> bool:
        queued = next(queued for queued in self.outbox if queued.event.outbox_id == outbox_id)
        queued.attempts += 1
        queued.is_parked = queued.attempts >= attempts_limit
        return queued.is_parked

    @contextmanager
    def unused_chunks(self, document_ids: Sequence[str], chunk_ids: Sequence[str]) -> Iterator[list[str]]:
        used = {i for held in self.documents.values() for i in _ids(held.shown) | _ids(held.staged)}
        yield [chunk_id for chunk_id in chunk_ids if chunk_id not in used]

    def backlog(self, topics: Sequence[str] = ()) -> Backlog:
        waiting = self._waiting(topics)
        n_parked = sum(
            queued.is_parked and not queued.is_done and (not topics or queued.event.topic in topics)
            for queued in self.outbox
        )
        newest_id = waiting[-1].event.outbox_id if waiting else 0
        return Backlog(len(waiting), n_parked, newest_id, datetime.now(UTC) if waiting else None)

    def waits_up_to(self, outbox_id: int, topics: Sequence[str] = ()) -> bool:
        return any(queued.event.outbox_id <= outbox_id for queued in self._waiting(topics))

    def relationships(self, tenant_id: str = "") -> Iterator[Relationship]:
        for tenant in self.revisions:
            if tenant_id in ("", tenant):
                yield from (relationship(tenant, row) for row in self._tuples(tenant))

    @contextmanager
    def snapshot(self) -> Iterator[MirrorSnapshot]:
        ids = [q.event.outbox_id for q in self.outbox if not q.is_done and q.event.topic == "tuples"]
        yield MirrorSnapshot(tuple(ids), self.relationships)

    def prune(self) -> int:
        return 0

    def wait(self, timeout_s: float) -> bool:
        return bool(self._waiting(()))

    def _waiting(self, topics: Sequence[str]) -> list[Queued]:
        return [
            queued
            for queued in self.outbox
            if not queued.is_done and not queued.is_parked and (not topics or queued.event.topic in topics)
        ]

    def _queue(self, topic: str, key: str, payload: Mapping[str, Any], gates_checks: bool = False) -> None:
        event = OutboxEvent(len(self.outbox) + 1, topic, key, payload)
        self.outbox.append(Queued(event, gates_checks))


def _ids(write: DocumentWrite | None) -> set[str]:
    return {chunk.chunk_id for chunk in write.chunks} if write else set()
