"""What every vector index promises its writer and its reader, on the twin and on the embedded server."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient

from adapters.qdrant import QdrantSearchIndex
from adapters.qdrant_clients import AsyncWire
from adapters.qdrant_writer import QdrantIndexWriter
from cortex.chunks import ChunkVectors, IndexPoint, SparseVector
from cortex.errors import InputError, Misconfigured
from cortex.evidence import Candidate, Filters
from cortex.ports.ingest import IndexWriter
from cortex.ports.query import IndexQuery, SearchIndex
from cortex.principals import Permit, Principal
from tests.services.qdrant_process import QdrantProcess
from tests.twins.index import MemoryIndex

DIMENSION = 8
VERSION = "model.1"


@dataclass(frozen=True)
class Index:
    """One tenant of an index, with both the index's sides."""

    writer: IndexWriter
    reader: SearchIndex
    tenant: str = field(default_factory=lambda: uuid.uuid4().hex)

    def point(self, number: int, **fields: Any) -> IndexPoint:
        """Make a point of this tenant."""
        chunk_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.tenant} {number}")
        document_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.tenant} {number // 2}")
        made = point(number, tenant_id=self.tenant, chunk_id=str(chunk_id), document_id=str(document_id))
        if "seed" in fields:
            made = replace(made, vectors=point(number, seed=fields.pop("seed")).vectors)
        return replace(made, **fields)

    def question(self, seed: int = 0, profiles: Sequence[int] = (1,), **fields: Any) -> IndexQuery:
        """Make a query of this tenant whose vectors follow from the seed."""
        like = point(0, seed=seed).vectors
        made = IndexQuery(
            permit=Permit(Principal(self.tenant, "ada"), tuple(profiles), 1, ""),
            dense=like.dense,
            sparse=SparseVector(like.sparse.indices, (1.0,) * len(like.sparse.indices)),
            filters=Filters(),
            limit=200,
        )
        return replace(made, **fields)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    process = QdrantProcess(tmp_path_factory.mktemp("qdrant"))
    process.start()
    yield process
    assert process.stop() == 0


@pytest.fixture(scope="module")
def writers(server: QdrantProcess) -> Iterator[tuple[QdrantIndexWriter, QdrantIndexWriter]]:
    """Two indexes on one server."""
    made = []
    for alias in ("first", "second"):
        made.append(QdrantIndexWriter(QdrantClient(url=server.url, check_compatibility=False), alias=alias))
        made[-1].ensure(VERSION, DIMENSION)
    yield made[0], made[1]
    for writer in made:
        writer.close()


@pytest.fixture
async def readers(server: QdrantProcess) -> AsyncIterator[tuple[QdrantSearchIndex, QdrantSearchIndex]]:
    """Readers of both indexes."""
    first, second = (
        QdrantSearchIndex(AsyncWire(server.url, "", 15), exact_below=50_000, alias=alias)
        for alias in ("first", "second")
    )
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture(params=["twin", pytest.param("server", marks=pytest.mark.services)])
def index(request: pytest.FixtureRequest) -> Index:
    if request.param == "twin":
        twin = MemoryIndex()
        twin.ensure(VERSION, DIMENSION)
        return Index(twin, twin.reader)
    return Index(request.getfixturevalue("writers")[0], request.getfixturevalue("readers")[0])


def point(number: int, *, seed: int | None = None, **fields: Any) -> IndexPoint:
    """Make a point whose vectors follow from `seed`, by default its number."""
    rng = np.random.default_rng(number if seed is None else seed)
    dense = rng.standard_normal(DIMENSION).astype(np.float32)
    terms = sorted(set(rng.integers(0, 12, 5).tolist()))
    weights = (rng.integers(1, 4, len(terms)) / 2).tolist()
    made = IndexPoint(
        chunk_id="",
        document_id="",
        tenant_id="",
        profile_id=1,
        source_id="s",
        source_type="files",
        collection="default",
        group_id="",
        updated_at=datetime(2026, 1, 1, tzinfo=UTC),
        embedding_model_version=VERSION,
        vectors=ChunkVectors(dense / np.linalg.norm(dense), SparseVector(tuple(terms), tuple(weights))),
    )
    return replace(made, **fields)


def ids(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.chunk_id for candidate in candidates]


async def test_a_point_is_found_by_both_lanes(index: Index) -> None:
    """A candidate names its document, and its score and rank in each lane."""
    index.writer.upsert([index.point(7), *(index.point(number, seed=99) for number in range(20, 40))])
    first, *_ = await index.reader.search(index.question(seed=7))
    assert first.chunk_id == index.point(7).chunk_id
    assert first.document_id == index.point(7).document_id
    assert (first.lanes.dense_rank, first.lanes.bm25_rank) == (1, 1)
    assert first.lanes.dense_score == pytest.approx(1.0, abs=1e-5)
    assert first.score == pytest.approx(2 / 11)


async def test_what_is_upserted_twice_is_there_once(index: Index) -> None:
    """A repeated upsert replaces, and the next search sees the new values."""
    index.writer.upsert([index.point(1)])
    index.writer.upsert([index.point(1), index.point(2)])
    index.writer.upsert([index.point(2, profile_id=9)])
    assert index.writer.count(index.tenant) == 2
    assert ids(await index.reader.search(index.question(profiles=(9,)))) == [index.point(2).chunk_id]


async def test_only_permitted_profiles_of_the_own_tenant_are_found(index: Index) -> None:
    """Other profiles, other tenants and an empty permit give nothing."""
    other = replace(index, tenant=uuid.uuid4().hex)
    index.writer.upsert([index.point(1), index.point(2, profile_id=2), other.point(3)])
    assert ids(await index.reader.search(index.question(profiles=(1, 5)))) == [index.point(1).chunk_id]
    assert ids(await index.reader.search(other.question())) == [other.point(3).chunk_id]
    assert await index.reader.search(index.question(profiles=())) == []


async def test_thousands_of_profiles_filter_as_a_few_do(index: Index) -> None:
    """A permit of more ids than can be listed, in runs and singly, finds exactly its points."""
    index.writer.upsert([index.point(number, profile_id=number) for number in range(60)])
    held = [0, 1, 2, 7, 9, 10, 30, 31, 32, 33, 59]
    many = sorted({*held, *range(1_000, 3_000), *range(4_000, 6_000, 2)})
    found = await index.reader.search(index.question(profiles=many, limit=500))
    assert found == await index.reader.search(index.question(profiles=held, limit=500))
    assert {candidate.chunk_id for candidate in found} == {index.point(number).chunk_id for number in held}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(collections=("b", "c")), {1, 2}),
        (Filters(source_types=("mail",)), {2}),
        (Filters(updated_after=datetime(2026, 1, 2, tzinfo=UTC)), {1}),
        (Filters(updated_before=datetime(2026, 1, 2, tzinfo=UTC)), {0, 3}),
        (Filters(collections=("a",), source_types=("mail",)), set()),
    ],
)
async def test_filters_narrow_every_lane(index: Index, filters: Filters, expected: set[int]) -> None:
    """Collection, source type and half-open periods narrow; a document without a date is in no period."""
    points = [
        index.point(0, collection="a"),
        index.point(1, collection="b", updated_at=datetime(2026, 1, 2, tzinfo=UTC)),
        index.point(2, collection="c", source_type="mail", updated_at=None),
        index.point(3, collection="a"),
    ]
    index.writer.upsert(points)
    found = await index.reader.search(index.question(filters=filters))
    assert set(ids(found)) == {points[number].chunk_id for number in expected}


async def test_narrowing_does_not_change_lane_scores(index: Index) -> None:
    """The rarity of a term is taken over what the reader may see, not over what the question is narrowed to."""
    index.writer.upsert([index.point(number, collection="ab"[number % 2]) for number in range(30)])
    everything = {one.chunk_id: one for one in await index.reader.search(index.question())}
    for one in await index.reader.search(index.question(filters=Filters(collections=("a",)))):
        assert one.lanes.bm25_score == pytest.approx(everything[one.chunk_id].lanes.bm25_score)


async def test_a_lane_without_vector_does_not_run(index: Index) -> None:
    """Either lane can be asked alone; without any nothing is found."""
    index.writer.upsert([index.point(number) for number in range(10)])
    dense = await index.reader.search(index.question(sparse=None))
    assert {candidate.lanes.bm25_rank for candidate in dense} == {None}
    bm25 = await index.reader.search(index.question(dense=None))
    assert {candidate.lanes.dense_rank for candidate in bm25} == {None}
    assert await index.reader.search(index.question(dense=None, sparse=None)) == []
    assert await index.reader.search(index.question(dense=None, sparse=SparseVector((), ()))) == []


async def test_a_chunk_without_terms_is_found_by_its_meaning(index: Index) -> None:
    """A passage of nothing but symbols has an empty term vector and is still indexed."""
    bare = index.point(5)
    index.writer.upsert([replace(bare, vectors=ChunkVectors(bare.vectors.dense, SparseVector((), ())))])
    (found,) = await index.reader.search(index.question(seed=5))
    assert found.lanes.bm25_rank is None


async def test_deleted_chunks_and_documents_are_gone_at_once(index: Index) -> None:
    """Deletion by chunk and by document; what is not there does not matter."""
    index.writer.upsert([index.point(number) for number in range(6)])
    index.writer.delete_chunks([index.point(0).chunk_id, index.point(99).chunk_id])
    index.writer.delete_document(index.point(2).document_id)  # points 2 and 3
    index.writer.delete_document("unknown")
    found = await index.reader.search(index.question())
    assert set(ids(found)) == {index.point(number).chunk_id for number in (1, 4, 5)}
    assert index.writer.count(index.tenant) == 3


def test_an_empty_selector_is_refused(index: Index) -> None:
    """Nothing may delete everything by selecting nothing."""
    index.writer.upsert([index.point(1)])
    for attempt in (lambda: index.writer.delete_chunks([]), lambda: index.writer.delete_document("")):
        with pytest.raises(InputError) as caught:
            attempt()
        assert caught.value.error_code == "selector.empty"
    assert index.writer.count(index.tenant) == 1


async def test_a_profile_changes_without_the_content(index: Index) -> None:
    """After set_profile the same chunks are found under the new profile only."""
    index.writer.upsert([index.point(4), index.point(5)])
    before = await index.reader.search(index.question())
    index.writer.set_profile(index.point(4).document_id, 77)
    assert await index.reader.search(index.question()) == []
    assert await index.reader.search(index.question(profiles=(77,))) == before


async def test_pages_are_slices_of_one_order(index: Index) -> None:
    """Any limit and offset cut the same fused list, duplicates in it included."""
    index.writer.upsert([index.point(number, seed=number % 7) for number in range(40)])
    whole = await index.reader.search(index.question())
    pages = [await index.reader.search(index.question(limit=9, offset=offset)) for offset in range(0, 45, 9)]
    assert [candidate for page in pages for candidate in page] == whole


async def test_equal_scores_are_ordered_by_chunk_id(index: Index) -> None:
    """Copies of one text rank by id in each lane and in the result, also where they reach past the lane's end."""
    copies = [index.point(number, seed=1) for number in range(90)]
    index.writer.upsert([*copies, *(index.point(number) for number in range(100, 120))])
    found = await index.reader.search(index.question(seed=1, lane_limit=20))
    expected = sorted(copy.chunk_id for copy in copies)[:20]
    assert ids(found) == expected
    assert [candidate.lanes.dense_rank for candidate in found] == list(range(1, 21))
    assert [candidate.lanes.bm25_rank for candidate in found] == list(range(1, 21))


async def test_weights_and_constant_are_those_of_the_query(index: Index) -> None:
    """The fused score is the sum of weight / (k + rank)."""
    index.writer.upsert([index.point(number) for number in range(30)])
    for one in await index.reader.search(index.question(weight_dense=2.0, weight_bm25=0.5, fusion_k=60)):
        lanes = one.lanes
        dense = 2.0 / (60 + lanes.dense_rank) if lanes.dense_rank else 0.0
        bm25 = 0.5 / (60 + lanes.bm25_rank) if lanes.bm25_rank else 0.0
        assert one.score == pytest.approx(dense + bm25)


async def test_optimizing_changes_no_result(index: Index) -> None:
    """Before and after, the same question gives the same candidates with the same scores."""
    index.writer.upsert([index.point(number, seed=number % 31) for number in range(60)])
    index.writer.delete_chunks([index.point(number).chunk_id for number in range(0, 60, 5)])
    before = await index.reader.search(index.question())
    index.writer.optimize()
    assert await index.reader.search(index.question()) == before


def test_another_dimension_for_the_same_model_is_refused(index: Index) -> None:
    """An index that cannot hold the model's vectors is no index for it."""
    with pytest.raises(Misconfigured) as caught:
        index.writer.ensure(VERSION, DIMENSION + 1)
    assert caught.value.error_code == "index.mismatch"


async def test_another_model_version_cuts_over_at_once(index: Index) -> None:
    """After a change of model, searches see the new version's points only; deletions reach both."""
    index.writer.upsert([index.point(1)])
    index.writer.ensure("model.2", DIMENSION)
    try:
        assert await index.reader.search(index.question()) == []
        index.writer.upsert([index.point(2)])
        assert ids(await index.reader.search(index.question())) == [index.point(2).chunk_id]
        index.writer.delete_chunks([index.point(1).chunk_id])
    finally:
        index.writer.ensure(VERSION, DIMENSION)
    assert await index.reader.search(index.question()) == []


@pytest.mark.services
async def test_the_server_computes_what_the_twin_defines(
    writers: tuple[IndexWriter, IndexWriter], readers: tuple[SearchIndex, SearchIndex]
) -> None:
    """On random points, filters and weights the real index returns the definitional result, rank by rank."""
    twin, real = MemoryIndex(), Index(writers[0], readers[0])
    twin.ensure(VERSION, DIMENSION)
    world = random.Random(5)
    points = [
        real.point(
            number, seed=world.randrange(60), profile_id=world.randrange(6), collection=world.choice("ab")
        )
        for number in range(150)
    ]
    for writer in (twin, real.writer):
        writer.upsert(points)
        writer.delete_chunks([real.point(number).chunk_id for number in range(0, 150, 7)])
    for seed in range(40):
        query = real.question(
            seed=seed,
            profiles=sorted(world.sample(range(6), world.randint(1, 5))),
            filters=Filters(collections=("a",)) if seed % 3 == 0 else Filters(),
            lane_limit=world.choice([5, 30, 100]),
            weight_bm25=world.choice([0.5, 1.0, 2.0]),
        )
        expected, actual = await twin.reader.search(query), await real.reader.search(query)
        assert [ranks(one) for one in actual] == [ranks(one) for one in expected]
        assert scores(actual) == pytest.approx(scores(expected), rel=1e-3)


def scores(candidates: Sequence[Candidate]) -> list[float]:
    """Lane scores, 0 where a lane did not find the chunk."""
    return [score or 0.0 for one in candidates for score in (one.lanes.dense_score, one.lanes.bm25_score)]


def ranks(candidate: Candidate) -> tuple[str, int | None, int | None]:
    return candidate.chunk_id, candidate.lanes.dense_rank, candidate.lanes.bm25_rank


@pytest.mark.services
@pytest.mark.parametrize("seed", range(6))
async def test_a_reader_cannot_tell_what_they_may_not_see(
    writers: tuple[IndexWriter, IndexWriter], readers: tuple[SearchIndex, SearchIndex], seed: int
) -> None:
    """Results equal those of an index that physically lacks the rest: copies, deletions and any order of arrival.

    Ranks must be equal too, and lane scores as far as they are reported, for 25 questions a world.
    """
    world = random.Random(seed)
    full, bare = (Index(writers[at], readers[at], tenant=f"world {seed}") for at in (0, 1))
    everything = [
        full.point(number, seed=world.randrange(50), profile_id=world.randrange(8)) for number in range(300)
    ]
    deleted = {one.chunk_id for one in world.sample(everything, 40)}
    mine = tuple(sorted(world.sample(range(8), 3)))
    world.shuffle(everything)
    full.writer.upsert(everything)
    full.writer.delete_chunks(sorted(deleted))
    if seed == 3:
        full.writer.optimize()
    visible = [one for one in everything if one.profile_id in mine and one.chunk_id not in deleted]
    world.shuffle(visible)
    bare.writer.upsert(visible)
    for number in range(25):
        query = full.question(seed=number, profiles=mine, lane_limit=world.choice([10, 100]))
        actual, expected = await full.reader.search(query), await bare.reader.search(query)
        assert [ranks(one) for one in actual] == [ranks(one) for one in expected]
        assert scores(actual) == pytest.approx(scores(expected), rel=1e-3)
