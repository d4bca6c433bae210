"""The query path over the real engines: what each person finds, from the very next request on, and in which time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from qdrant_client import QdrantClient

from adapters.bm25 import Bm25Encoder
from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.outbox import PostgresOutbox
from adapters.catalog.query import PostgresQueryCatalog
from adapters.in_threads import ThreadedEmbedder
from adapters.onnx_embedder import OnnxEmbedder
from adapters.qdrant import QdrantSearchIndex
from adapters.qdrant_clients import AsyncWire
from adapters.qdrant_writer import QdrantIndexWriter
from adapters.spicedb.checker import SpiceDBChecker
from adapters.spicedb.writer import SpiceDBWriter
from cortex.chunks import Chunk, ChunkVectors
from cortex.documents import EVERYONE, NOBODY, Acl, Anchor, Document, Grant, GrantKind, Item, Membership
from cortex.errors import ChecksUnavailable, Forbidden
from cortex.evidence import AnswerEvent, Question, SearchResult
from cortex.ids import chunk_id, document_id, sha256_hex, source_id, tenant_object_id
from cortex.ports.connectors import SourceConfig
from cortex.ports.outbox import Relationship
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.deliver import drain
from data_jobs.rows import Row
from data_jobs.stages.upsert import UpsertStage
from retrieval.path import Parts, answer, search
from retrieval.plan import Plan
from retrieval.understand import ByRules
from tests.databases import new_database

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),  # loopback
]

TENANT = "query-path"
SOURCE = source_id(TENANT, "files", "wiki")


def users(*names: str) -> frozenset[Grant]:
    return frozenset(Grant(GrantKind.USER, name) for name in names)


def groups(*names: str) -> frozenset[Grant]:
    return frozenset(Grant(GrantKind.GROUP, name) for name in names)


MEMBERS = (
    Membership("staff", Grant(GrantKind.GROUP, "engineering")),
    Membership("staff", Grant(GrantKind.GROUP, "legal")),
    Membership("engineering", Grant(GrantKind.USER, "ana")),
    Membership("engineering", Grant(GrantKind.USER, "bo")),
    Membership("legal", Grant(GrantKind.USER, "cy")),
)

DOCUMENTS: dict[str, tuple[Acl, tuple[str, ...]]] = {
    "canteen": (EVERYONE, ("The canteen opens at half past eleven on weekdays. It serves two warm dishes.",)),
    "queue": (
        Acl(groups("engineering")),
        (
            "The message queue keeps events for three days before they are dropped.",
            "Consumers of the message queue commit their offsets every ten seconds.",
        ),
    ),
    "contract": (
        Acl(groups("staff"), denied=users("bo")),
        ("The supply contract with Nordwind ends in June, with a notice period of three months.",),
    ),
    "merger": (
        Acl(groups("staff"), denied=groups("engineering")),
        ("The merger with Nordwind is planned for autumn and not public yet.",),
    ),
    "dark": (NOBODY, ("The merger with Nordwind was discussed in a mailbox that nobody signs in to.",)),
    "keihi": (EVERYONE, ("経費精算の期限は毎月末です。領収書を経理部に提出してください。",)),
}


@dataclass(frozen=True, slots=True)
class Engines:
    """The real parts of both sides, and the loop that the asynchronous ones live in."""

    parts: Parts
    embedder: OnnxEmbedder
    catalog: PostgresIngestCatalog
    outbox: PostgresOutbox
    writer: SpiceDBWriter
    index: QdrantIndexWriter
    upsert: UpsertStage
    loop: asyncio.Runner

    def search(self, user_id: str, text: str, depth: int = 20) -> SearchResult:
        return self.loop.run(search(self.parts, Principal(TENANT, user_id), Question(text, depth=depth)))

    def found(self, user_id: str, text: str) -> set[str]:
        """The titles of what a person finds."""
        return {hit.title for hit in self.search(user_id, text).hits}

    def answer(self, user_id: str, text: str) -> list[AnswerEvent]:
        async def collect() -> list[AnswerEvent]:
            return [event async for event in answer(self.parts, Principal(TENANT, user_id), Question(text))]

        return self.loop.run(collect())

    def store(self, name: str, acl: Acl, texts: Sequence[str]) -> str:
        """Store one document as ingest does; returns its id."""
        row = _row(self, name, acl, texts)
        self.upsert([row])
        assert row.document is not None
        return row.document.document_id

    def set_acl(self, name: str, acl: Acl) -> None:
        """Change an access list in the catalog, and nowhere else yet."""
        self.catalog.set_acl(TENANT, SOURCE, name, document_id(TENANT, SOURCE, name), acl)

    def deliver(self, *, with_index: bool = True) -> None:
        drain(self.outbox, self.writer, self.index if with_index else None)


def _row(engines: Engines, name: str, acl: Acl, texts: Sequence[str]) -> Row:
    own_id, sha256 = document_id(TENANT, SOURCE, name), sha256_hex("\n\n".join(texts).encode())
    document = Document(own_id, TENANT, SOURCE, name, "files", name, "text/plain", sha256, f"file:///{name}")
    start, chunks = 0, []
    for ordinal, text in enumerate(texts):
        end = start + len(text.encode())
        own_chunk_id = chunk_id(own_id, sha256, ordinal, engines.embedder.version)
        anchor = Anchor("line", ordinal + 1, ordinal + 1)
        chunks.append(Chunk(own_chunk_id, own_id, ordinal, text, f"{name}\n{text}", start, end, anchor))
        start = end + 2
    dense = engines.embedder.embed_documents([chunk.embed_text for chunk in chunks])
    sparse = [engines.parts.lexical.encode_document(chunk.embed_text) for chunk in chunks]
    vectors = tuple(ChunkVectors(row, words) for row, words in zip(dense, sparse, strict=True))
    return Row(
        Item(name, "text/plain"), acl, "", content_sha256=sha256, document=document, chunks=tuple(chunks), vectors=vectors
    )  # fmt: skip


@pytest.fixture(scope="module")
def engines(home_engines: Settings, empty_catalog: str) -> Iterator[Engines]:
    token = home_engines.spicedb_token.get_secret_value()
    key = home_engines.qdrant_api_key.get_secret_value() or None
    embedder = OnnxEmbedder.from_settings(home_engines)
    with new_database(home_engines.postgres_url, empty_catalog) as url, asyncio.Runner() as loop:
        reading = AsyncWire(home_engines.qdrant_url, key or "", 15)
        writing = QdrantClient(url=home_engines.qdrant_url, api_key=key, check_compatibility=False)
        query, checker = PostgresQueryCatalog(url), SpiceDBChecker(home_engines.spicedb_url, token)
        catalog, outbox = PostgresIngestCatalog(url), PostgresOutbox(url)
        writer, index = (
            SpiceDBWriter(home_engines.spicedb_url, token),
            QdrantIndexWriter(writing, alias=TENANT),
        )
        parts = Parts(
            catalog=query,
            index=QdrantSearchIndex(reading, exact_below=50_000, alias=TENANT),
            checker=checker,
            embedder=ThreadedEmbedder(embedder),
            lexical=Bm25Encoder.from_settings(home_engines),
            understanding=ByRules(Plan.from_settings(home_engines)),
            plan=Plan.from_settings(home_engines),
        )
        loop.run(query.open())
        index.ensure(embedder.version, embedder.dimension)
        catalog.ensure_source(SourceConfig(TENANT, SOURCE, "files", "wiki"))
        upsert = UpsertStage(catalog, index, embedder.version)
        yield Engines(parts, embedder, catalog, outbox, writer, index, upsert, loop)
        for closing in (query.close(), checker.close(), reading.close()):
            loop.run(closing)
        for part in (catalog, outbox, writer, writing):
            part.close()


@pytest.fixture
def company(engines: Engines) -> Engines:
    """The company as it stands before each test."""
    engines.catalog.ensure_users(TENANT, ["ana", "bo", "cy", "dee"])
    engines.catalog.set_memberships(TENANT, SOURCE, MEMBERS)
    for name, (acl, texts) in DOCUMENTS.items():
        engines.set_acl(name, Acl())  # an unknown list would not overwrite what an earlier test left
        engines.store(name, acl, texts)
    engines.deliver()
    return engines


def test_each_person_finds_what_the_access_lists_say(company: Engines) -> None:
    """Nested groups admit, denial wins wherever it is nested, and everyone means everyone who is registered."""
    question = "Nordwind merger contract, message queue, canteen"
    assert company.found("ana", question) == {"canteen", "queue", "contract", "keihi"}
    assert company.found("bo", question) == {"canteen", "queue", "keihi"}
    assert company.found("cy", question) == {"canteen", "contract", "merger", "keihi"}
    assert company.found("dee", question) == {"canteen", "keihi"}


def test_an_audience_finds_what_all_of_it_may_open(company: Engines) -> None:
    """Over the real engines, readers leave of the asker's findings only what each of them finds too."""
    for asker, *readers in (["ana", "bo"], ["ana", "cy"], ["cy", "bo", "ana"], ["bo", "cy"]):
        principal = Principal(TENANT, asker, readers=tuple(readers))
        for text in ("Nordwind contract merger", "message queue events", "canteen dishes"):
            found = company.loop.run(search(company.parts, principal, Question(text, depth=20)))
            alone = [company.found(name, text) for name in (asker, *readers)]
            assert {hit.title for hit in found.hits} == set.intersection(*alone)
    assert "queue" in company.found(
        "ana", "message queue events"
    )  # the intersections above are no empty ones


def test_who_is_not_registered_is_refused(company: Engines) -> None:
    """A stranger gets an error, not even what everyone may see."""
    with pytest.raises(Forbidden):
        company.search("eve", "canteen")


def test_a_removed_member_finds_nothing_from_the_very_next_request(company: Engines) -> None:
    """Before any engine has heard of it the search is closed or empty of it, and afterwards it is gone."""
    assert "queue" in company.found("ana", "message queue")
    company.catalog.set_memberships(TENANT, SOURCE, [edge for edge in MEMBERS if edge.member.name != "ana"])
    with pytest.raises(ChecksUnavailable):
        company.search("ana", "message queue")
    company.deliver(with_index=False)
    assert company.found("ana", "message queue") == {"canteen", "keihi"}
    assert "queue" in company.found("bo", "message queue")


def test_a_moved_document_follows_its_new_list_while_the_index_still_holds_the_old(company: Engines) -> None:
    """The catalog's current rows hold it back from who lost it; who gained it finds it once the index knows."""
    company.set_acl("queue", Acl(groups("legal")))
    company.deliver(with_index=False)
    assert "queue" not in company.found("ana", "message queue")
    company.deliver()
    assert "queue" in company.found("cy", "message queue")
    assert "queue" not in company.found("ana", "message queue")


def test_what_spicedb_alone_refuses_stays_hidden(company: Engines) -> None:
    """When every mirror says yes and SpiceDB says no, the answer is no."""
    own_id = tenant_object_id(TENANT, document_id(TENANT, SOURCE, "canteen"))
    profile_id = company.search("ana", "canteen").hits[0].profile_id
    assert company.found("ana", "canteen") >= {"canteen"}
    access = Relationship("document", own_id, "access", "profile", tenant_object_id(TENANT, str(profile_id)))
    company.outbox.acknowledge([], company.writer.apply([], [access]))
    assert "canteen" not in company.found("ana", "when does the canteen open")
    company.outbox.acknowledge([], company.writer.apply([access], []))
    assert "canteen" in company.found("ana", "when does the canteen open")


def test_a_deleted_document_is_gone_at_once(company: Engines) -> None:
    """A tombstone hides before the index has dropped a single point."""
    company.catalog.tombstone(document_id(TENANT, SOURCE, "contract"))
    company.deliver(with_index=False)
    assert "contract" not in company.found("cy", "supply contract with Nordwind")


def test_neighbouring_chunks_are_one_fragment(company: Engines) -> None:
    """Two chunks that follow each other in the body come as one piece of evidence."""
    result = company.search("ana", "message queue events offsets")
    texts = {fragment.hit.title: fragment.text for fragment in result.fragments}
    assert texts["queue"] == "\n\n".join(DOCUMENTS["queue"][1])


def test_a_cited_answer_comes_without_a_model(company: Engines) -> None:
    """The answer is a sentence of a document that the asker may open."""
    whole = company.answer("dee", "When does the canteen open?")[-1].answer
    assert whole is not None
    assert whole.text.startswith("The canteen opens at half past eleven on weekdays. [1]")
    assert [citation.title for citation in whole.citations][:1] == ["canteen"]


def test_a_question_about_the_unseen_is_an_abstention(company: Engines) -> None:
    """Who may not see the one document that answers is told the same as if it did not exist."""
    asked = "When is the merger with Nordwind planned?"
    seen, unseen = company.answer("cy", asked)[-1].answer, company.answer("dee", asked)[-1].answer
    assert seen is not None
    assert unseen is not None
    assert "autumn" in seen.text
    assert (unseen.is_abstained, unseen.citations) == (True, ())


def test_pi_is_not_answered_with_tickets(company: Engines) -> None:
    """A question that nothing here speaks of gets no citations."""
    whole = company.answer("ana", "What is pi?")[-1].answer
    assert whole is not None
    assert whole.is_abstained


def test_japanese_is_found_by_its_words(company: Engines) -> None:
    """The English model stays out of a Japanese question, and the result says so."""
    result = company.search("dee", "経費精算の期限はいつですか")
    assert result.hits[0].title == "keihi"
    assert [(note.part, note.code) for note in result.degraded] == [("dense", "lane.unknown_script")]
    whole = company.answer("dee", "経費精算の期限はいつですか")[-1].answer
    assert whole is not None
    assert whole.text.startswith("経費精算の期限は毎月末です。 [1]")
