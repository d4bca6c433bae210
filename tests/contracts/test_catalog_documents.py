"""What every IngestCatalog and QueryCatalog promise about documents, on the twin and on Postgres."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cortex.chunks import Chunk
from cortex.documents import EVERYONE, NOBODY
from cortex.errors import Conflict, InputError, NotFound
from cortex.evidence import Candidate
from cortex.ports.connectors import FetchFailure, Skipped
from tests.contracts.catalog_words import MODEL, TENANT, acl, candidates, person, source, user, version
from tests.contracts.conftest import Catalog

ANN, BOB = person("ann"), person("bob")


def chunks_of(*chunks: Chunk) -> set[str]:
    return {chunk.chunk_id for chunk in chunks}


def obsolete(catalog: Catalog) -> list[str]:
    """The chunk ids queued for deletion."""
    events = catalog.outbox.take(1_000, ("chunks.obsolete",))
    return [chunk_id for event in events for chunk_id in event.payload["chunk_ids"]]


async def test_a_staged_version_is_invisible_until_it_is_published(catalog: Catalog) -> None:
    """Readers keep the old version while a new one is staged, and get the new one from its publication on."""
    old, new = version("a", "old one\nold two"), version("a", "new one")
    catalog.ingest.stage_document(old)
    catalog.set_acl(old, EVERYONE)
    assert await catalog.seen(ANN, old) == []
    catalog.ingest.publish_document(old.document.document_id, old.document.content_sha256)
    catalog.ingest.stage_document(new)
    assert await catalog.seen(ANN, old, new) == ["old one", "old two"]
    gone = catalog.ingest.publish_document(new.document.document_id, new.document.content_sha256)
    assert await catalog.seen(ANN, old, new) == ["new one"]
    assert set(gone) == chunks_of(*old.chunks)
    assert obsolete(catalog) == list(gone)


async def test_publishing_twice_changes_nothing(catalog: Catalog) -> None:
    """A publish that is repeated after a crash returns no obsolete chunks and queues none."""
    write = version("a", "text")
    catalog.publish(write, EVERYONE)
    assert catalog.ingest.publish_document(write.document.document_id, write.document.content_sha256) == ()
    assert obsolete(catalog) == []
    assert await catalog.seen(ANN, write) == ["text"]


async def test_what_is_written_together_is_kept_together_or_not_at_all(catalog: Catalog) -> None:
    """An error in a block of writes leaves the catalog as it was before, and the next write is one of its own again."""
    first, second = version("a", "one"), version("b", "two")
    for write in (first, second):
        catalog.set_acl(write, EVERYONE)
        catalog.ingest.stage_document(write)
    unstaged = version("c", "three")
    with pytest.raises(Conflict), catalog.ingest.together():
        for write in (first, second, unstaged):
            catalog.ingest.publish_document(write.document.document_id, write.document.content_sha256)
    assert await catalog.seen(ANN, first, second) == []
    with catalog.ingest.together():
        for write in (first, second):
            catalog.ingest.publish_document(write.document.document_id, write.document.content_sha256)
    assert await catalog.seen(ANN, first, second) == ["one", "two"]
    catalog.publish(version("b", "newer"))
    assert await catalog.seen(ANN, version("b", "newer")) == ["newer"]


def test_documents_staged_together_are_compared_with_each_other(catalog: Catalog) -> None:
    """The second of two alike documents finds the first before their block has ended."""
    first = replace(version("a", "one"), signature=bytes(range(256)))
    with catalog.ingest.together():
        catalog.ingest.stage_document(first)
        found = catalog.ingest.near_duplicates(TENANT, "other", first.signature)
    assert found == first.document.document_id


async def test_what_is_not_staged_cannot_be_published(catalog: Catalog) -> None:
    """Publishing an unknown document, or another version than the staged one, is a conflict and shows nothing."""
    write = version("a", "text")
    with pytest.raises(Conflict):
        catalog.ingest.publish_document(write.document.document_id, write.document.content_sha256)
    catalog.set_acl(write, EVERYONE)
    catalog.ingest.stage_document(write)
    with pytest.raises(Conflict):
        catalog.ingest.publish_document(write.document.document_id, "0" * 64)
    assert await catalog.seen(ANN, write) == []


async def test_a_version_that_was_staged_and_never_shown_leaves_no_points(catalog: Catalog) -> None:
    """Staging over an abandoned version queues the chunks that only it had: their points may exist already."""
    shown, abandoned, third = version("a", "shown"), version("a", "x\ny"), version("a", "third")
    catalog.publish(shown, EVERYONE)
    catalog.ingest.stage_document(abandoned)
    catalog.ingest.stage_document(abandoned)
    assert obsolete(catalog) == []
    catalog.ingest.stage_document(third)
    assert set(obsolete(catalog)) == chunks_of(*abandoned.chunks)
    assert await catalog.seen(ANN, shown, abandoned, third) == ["shown"]


async def test_content_that_comes_back_keeps_its_points(catalog: Catalog) -> None:
    """A deletion that is still queued does not take the chunks of a version that came back meanwhile."""
    first, second = version("a", "first"), version("a", "second")
    catalog.publish(first, EVERYONE)
    catalog.publish(second)
    catalog.ingest.stage_document(first)
    [event] = catalog.outbox.take(10, ("chunks.obsolete",))
    with catalog.outbox.unused_chunks([first.document.document_id], event.payload["chunk_ids"]) as unused:
        assert unused == []
    catalog.publish(first)
    ids = [chunk.chunk_id for write in (first, second) for chunk in write.chunks]
    with catalog.outbox.unused_chunks([first.document.document_id], ids) as unused:
        assert set(unused) == chunks_of(*second.chunks)


async def test_the_same_chunk_ids_with_new_text_stay_hidden_until_published(catalog: Catalog) -> None:
    """A new parser gives the same content other chunks under the same ids: the shown text is not touched before."""

    old = version("a", "as the old parser read it")
    new = replace(old, chunks=(replace(old.chunks[0], text="as the new parser reads it"),))
    catalog.publish(old, EVERYONE)
    catalog.ingest.stage_document(new)
    assert await catalog.seen(ANN, old) == ["as the old parser read it"]
    assert catalog.ingest.publish_document(new.document.document_id, new.document.content_sha256) == ()
    assert await catalog.seen(ANN, new) == ["as the new parser reads it"]
    assert obsolete(catalog) == []


async def test_a_tombstone_hides_at_once_and_forgets_the_access_list(catalog: Catalog) -> None:
    """A deleted document is gone from the next read; when it returns, nobody may see it until its list is set anew."""
    write = version("a", "one\ntwo")
    catalog.publish(write, EVERYONE)
    assert set(catalog.ingest.tombstone(write.document.document_id)) == chunks_of(*write.chunks)
    assert await catalog.seen(ANN, write) == []
    assert catalog.ingest.known_documents(source().source_id, MODEL) == {}
    assert catalog.ingest.tombstone(write.document.document_id) == ()
    assert catalog.ingest.tombstone("never heard of") == ()
    catalog.publish(write)
    assert await catalog.seen(ANN, write) == []
    catalog.set_acl(write, NOBODY)
    assert await catalog.seen(ANN, write) == []
    catalog.set_acl(write, acl(user("ann")))
    assert await catalog.seen(ANN, write) == ["one", "two"]
    assert await catalog.seen(BOB, write) == []


async def test_known_documents_say_what_a_rerun_may_skip(catalog: Catalog) -> None:
    """A rerun sees hashes, fingerprints and completeness of what is shown, and nothing as indexed that is not."""
    shown, listed = version("shown", "text"), version("listed", "text")
    catalog.publish(shown, EVERYONE)
    catalog.set_acl(listed, NOBODY)
    known = catalog.ingest.known_documents(source().source_id, MODEL)
    assert set(known) == {"shown", "listed"}
    assert known["shown"].document_id == shown.document.document_id
    assert known["shown"].content_sha256 == shown.document.content_sha256
    assert known["shown"].fingerprint == shown.fingerprint
    assert known["shown"].is_complete
    assert (known["listed"].content_sha256, known["listed"].is_complete) == ("", False)
    assert known["listed"].acl_sha256 != known["shown"].acl_sha256 != ""
    other_model = catalog.ingest.known_documents(source().source_id, "model-2")
    assert not other_model["shown"].is_complete
    catalog.ingest.set_fingerprints({shown.document.document_id: "touched"})
    assert catalog.ingest.known_documents(source().source_id, MODEL)["shown"].fingerprint == "touched"


async def test_hits_come_in_the_candidates_order_with_their_scores(catalog: Catalog) -> None:
    """Hydration keeps order, scores and lanes, gives every field, and leaves out what does not exist."""
    a, b = version("a", "a one\na two"), version("b", "b one")
    catalog.publish(a, EVERYONE)
    catalog.publish(b, acl(user("ann")))
    asked = [*reversed(candidates(a, b)), Candidate("no such chunk", "no such document", 9.0)]
    hits = await catalog.query.hydrate(asked, await catalog.query.permit(ANN))
    assert [hit.text for hit in hits] == ["b one", "a two", "a one"]
    assert [(hit.chunk_id, hit.score, hit.lanes) for hit in hits] == [
        (candidate.chunk_id, candidate.score, candidate.lanes) for candidate in asked[:3]
    ]
    first, chunk = hits[2], a.chunks[0]
    assert (first.title, first.permalink, first.collection) == ("Title of a", "file:///a", "default")
    assert (first.heading_path, first.anchor, first.ordinal) == (chunk.heading_path, chunk.anchor, 0)
    assert (first.byte_start, first.byte_end) == (0, len("a one"))
    assert first.content_sha256 == a.document.content_sha256
    assert first.group_id == first.document_id == a.document.document_id
    assert (first.source_id, first.source_type, first.author) == (a.document.source_id, "files", "")
    assert (first.chunk_id, first.profile_id) == (
        chunk.chunk_id,
        (await catalog.query.permit(BOB)).profile_ids[0],
    )
    assert first.updated_at == a.document.updated_at
    assert await catalog.seen(BOB, a, b) == ["a one", "a two"]
    assert await catalog.query.hydrate([], await catalog.query.permit(ANN)) == []


async def test_a_document_is_given_whole_or_not_at_all(catalog: Catalog) -> None:
    """All chunks of one visible document come in order; unknown and invisible ones look alike."""
    write = version("a", "\n".join(f"line {n}" for n in range(12)))
    catalog.publish(write, acl(user("ann")))
    ann, bob = await catalog.query.permit(ANN), await catalog.query.permit(BOB)
    hits = await catalog.query.document_hits(write.document.document_id, ann)
    assert [hit.text for hit in hits] == [f"line {n}" for n in range(12)]
    assert await catalog.query.document_hits(write.document.document_id, bob) == []
    assert await catalog.query.document_hits("no such document", ann) == []
    assert await catalog.query.document_hits("no\x00such", ann) == []


async def test_a_document_without_text_is_refused(catalog: Catalog) -> None:
    """A version without chunks cannot be staged: it would be found by nobody and say nothing."""
    with pytest.raises(InputError):
        catalog.ingest.stage_document(version("a", ""))


async def test_a_document_id_belongs_to_one_source(catalog: Catalog) -> None:
    """Another source cannot write over a document, nor set its access list."""
    mine = version("a", "text")
    catalog.publish(mine, acl(user("ann")))
    other = source("other")
    catalog.ingest.ensure_source(other)
    with pytest.raises(Conflict):
        catalog.ingest.set_acl(TENANT, other.source_id, "b", mine.document.document_id, EVERYONE)

    foreign = replace(mine, document=replace(mine.document, source_id=other.source_id, external_id="b"))
    with pytest.raises(Conflict):
        catalog.ingest.stage_document(foreign)
    assert await catalog.seen(BOB, mine) == []


def test_near_duplicates_are_found_by_their_signatures(catalog: Catalog) -> None:
    """A signature that shares 0.85 of its positions names the first of the group; less, or another tenant's, does not."""
    base = np.arange(64, dtype="<u4")

    def changed(n_positions: int) -> bytes:
        other = base.copy()
        other[:n_positions] += 1_000
        return other.tobytes()

    first = version("first", "text", signature=base.tobytes())
    catalog.ingest.stage_document(first)
    first_id = first.document.document_id
    assert catalog.ingest.near_duplicates(TENANT, "other", changed(9)) == first_id
    assert catalog.ingest.near_duplicates(TENANT, "other", changed(10)) == ""
    assert catalog.ingest.near_duplicates(TENANT, first_id, base.tobytes()) == ""
    assert catalog.ingest.near_duplicates("elsewhere", "other", base.tobytes()) == ""
    assert catalog.ingest.near_duplicates(TENANT, "other", b"") == ""
    second = version("second", "text", signature=changed(5), like=first_id)
    catalog.publish(second, EVERYONE)
    assert catalog.ingest.near_duplicates(TENANT, "other", changed(5)) == first_id
    assert catalog.ingest.near_duplicates(TENANT, first_id, changed(5)) == ""


def test_runs_are_counted_and_a_killed_one_is_closed_by_the_next(catalog: Catalog) -> None:
    """Sources list their newest run with counts and reasons; a run that was killed is reported as interrupted."""
    source_id = source().source_id
    killed = catalog.ingest.start_run(source_id)
    assert not catalog.ingest.update_run(killed, {"indexed": 1, "total": 9})
    run_id = catalog.ingest.start_run(source_id)
    failure = FetchFailure("broken.pdf", "document.unparsable", "it is encrypted")
    left_out = Skipped("name.hidden", "a name that begins with a dot", 3, ".git")
    catalog.ingest.finish_run(run_id, "succeeded", {"indexed": 8, "failed": 1}, [failure], [left_out])
    [listed] = catalog.ingest.list_sources(TENANT)
    assert (listed["source_id"], listed["name"], listed["n_documents"]) == (source_id, "wiki", 0)
    assert listed["run"]["run_id"] == run_id
    assert listed["run"]["status"] == "succeeded"
    assert listed["run"]["counts"] == {"indexed": 8, "failed": 1}
    assert listed["run"]["failures"] == [
        {"path": "broken.pdf", "code": "document.unparsable", "reason": "it is encrypted"}
    ]
    assert listed["run"]["skipped"] == [
        {"code": "name.hidden", "reason": "a name that begins with a dot", "n": 3, "example": ".git"}
    ]
    assert listed["run"]["finished_at"] >= listed["run"]["started_at"]
    with pytest.raises(NotFound):
        catalog.ingest.update_run("no such run", {})
    assert catalog.ingest.list_sources("elsewhere") == []


def test_a_run_can_be_asked_to_stop(catalog: Catalog) -> None:
    """The next progress of the run says so; who has another tenant, or names no running run, is told that there is none."""
    run_id = catalog.ingest.start_run(source().source_id)
    with pytest.raises(NotFound):
        catalog.ingest.request_stop("elsewhere", run_id)
    catalog.ingest.request_stop(TENANT, run_id)
    assert catalog.ingest.update_run(run_id, {"indexed": 1})
    catalog.ingest.finish_run(run_id, "stopped", {"indexed": 1}, [])
    with pytest.raises(NotFound):
        catalog.ingest.request_stop(TENANT, run_id)
