"""The embedded vector index as an ordinary Qdrant client meets it: the API subset, its refusals, and what kill -9 leaves."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from tests.services.qdrant_process import SPARSE, VECTORS, QdrantProcess, connect, ids, point

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    process = QdrantProcess(tmp_path_factory.mktemp("qdrant"))
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def client(server: QdrantProcess) -> Iterator[QdrantClient]:
    """A client, with a collection `numbers` (alias `n`) of the points 1 to 20; tests that write make their own."""
    opened = connect(server)
    opened.create_collection("numbers", VECTORS, SPARSE)
    for field in ("n", "even", "kind", "half"):
        kind = {"n": "integer", "even": "bool", "kind": "keyword", "half": "float"}[field]
        opened.create_payload_index("numbers", field, models.PayloadSchemaType(kind))
    opened.upsert("numbers", [point(number) for number in range(1, 21)])
    opened.update_collection_aliases(
        [
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name="numbers", alias_name="n")
            )
        ]
    )
    yield opened
    opened.close()


@pytest.fixture
def fresh(client: QdrantClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """An own collection without payload indexes."""
    name = f"fresh-{abs(hash(request.node.name))}"
    client.create_collection(name, VECTORS, SPARSE)
    yield name
    client.delete_collection(name)


def test_the_client_takes_it_for_its_own_release(server: QdrantProcess) -> None:
    """The version told at `/` is that of the client in use, so that it warns of nothing."""
    told = httpx.get(server.url).json()["version"]
    assert told.split(".")[:2] == version("qdrant-client").split(".")[:2]


def condition(**parts: Any) -> models.FieldCondition:
    return models.FieldCondition(**parts)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (models.Filter(must=[condition(key="n", match=models.MatchValue(value=3))]), {3}),
        (models.Filter(must=[condition(key="n", match=models.MatchAny(any=[3, 5, 99]))]), {3, 5}),
        (models.Filter(must=[condition(key="kind", match=models.MatchAny(any=["a"]))]), set(range(2, 21, 2))),
        (
            models.Filter(must=[condition(key="kind", match=models.MatchExcept(**{"except": ["a"]}))]),
            set(range(1, 21, 2)),
        ),
        (
            models.Filter(must=[condition(key="even", match=models.MatchValue(value=True))]),
            set(range(2, 21, 2)),
        ),
        (
            models.Filter(must=[condition(key="even", match=models.MatchValue(value=False))]),
            set(range(1, 21, 2)),
        ),
        (models.Filter(must=[condition(key="half", range=models.Range(gt=1, lte=2))]), {3, 4}),
        (models.Filter(must=[models.HasIdCondition(has_id=[1, 2, 77])]), {1, 2}),
        (models.Filter(must_not=[condition(key="n", range=models.Range(gte=2))]), {1}),
        (
            models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="none"))]),
            set(range(1, 21)),
        ),
        (
            models.Filter(
                must=[
                    models.Filter(
                        should=[
                            condition(key="n", match=models.MatchValue(value=1)),
                            condition(key="n", range=models.Range(gte=20)),
                        ]
                    )
                ]
            ),
            {1, 20},
        ),
    ],
)
def test_filters_select(client: QdrantClient, chosen: models.Filter, expected: set[int]) -> None:
    """Every kind of condition selects its points, alike in count, scroll and query."""
    scrolled, _ = client.scroll("n", scroll_filter=chosen, limit=50)
    found = client.query_points(
        "n", query=[1.0, 0, 0, 0], using="dense", query_filter=chosen, limit=50
    ).points
    assert set(ids(scrolled)) == set(ids(found)) == expected
    assert client.count("n", count_filter=chosen).count == len(expected)


def test_lanes_are_scored_and_ordered(client: QdrantClient) -> None:
    """Cosine and IDF-weighted dot products, best first, with offset, threshold and payload selection."""
    dense = client.query_points(
        "n", query=[1.0, 0, 0, 0], using="dense", limit=3, offset=1, with_payload=["n"]
    )
    assert ids(dense.points) == [2, 3, 4]
    assert dense.points[0].payload == {"n": 2}
    bm25 = client.query_points(
        "n", query=models.SparseVector(indices=[8], values=[1.0]), using="bm25", score_threshold=0.1
    )
    assert ids(bm25.points) == [7]


def test_rarity_counts_over_the_given_corpus(client: QdrantClient) -> None:
    """`params.idf.corpus` changes the weight of a term as the formula says: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    corpus = models.Filter(must=[condition(key="n", range=models.Range(lte=4))])
    scored = [
        client.query_points(
            "n", query=models.SparseVector(indices=[4], values=[1.0]), using="bm25", search_params=params
        ).points[0]
        for params in (None, models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus)))
    ]
    assert scored[0].score == pytest.approx(2 * 2.6391, abs=1e-3)  # 1 of 20
    assert scored[1].score == pytest.approx(2 * 1.2040, abs=1e-3)  # 1 of 4


def test_the_server_fuses_by_rank_and_by_distribution(client: QdrantClient) -> None:
    """Prefetches nest; RRF takes a constant and weights; DBSF is there too."""
    dense = models.Prefetch(query=[1.0, 0, 0, 0], using="dense", limit=5)
    bm25 = models.Prefetch(query=models.SparseVector(indices=[6], values=[1.0]), using="bm25", limit=5)
    ranked = client.query_points(
        "n", prefetch=[dense, bm25], query=models.RrfQuery(rrf=models.Rrf(k=10, weights=[1.0, 3.0])), limit=2
    )
    assert ids(ranked.points) == [5, 1]
    assert ranked.points[0].score == pytest.approx(1 / 14 + 1 / (1 / 3 + 9), abs=1e-5)
    nested = client.query_points(
        "n",
        prefetch=[
            models.Prefetch(prefetch=[dense, bm25], query=models.FusionQuery(fusion=models.Fusion.RRF))
        ],
        query=[1.0, 2.0, 0, 0],
        using="dense",
        limit=1,
    )
    assert ids(nested.points) == [5]
    assert client.query_points(
        "n", prefetch=[dense, bm25], query=models.FusionQuery(fusion=models.Fusion.DBSF)
    ).points


def test_a_batch_answers_each_query(client: QdrantClient) -> None:
    """query/batch keeps the order of its requests."""
    requests = [
        models.QueryRequest(query=[1.0, 0, 0, 0], using="dense", limit=1),
        models.QueryRequest(query=models.SparseVector(indices=[21], values=[1.0]), using="bm25", limit=1),
    ]
    assert [ids(answer.points) for answer in client.query_batch_points("n", requests)] == [[1], [20]]


def test_scroll_retrieve_facet_and_order(client: QdrantClient) -> None:
    """Pages follow each other; vectors come back on request; facets count values; order_by sorts."""
    first, following = client.scroll("n", limit=15)
    second, end = client.scroll("n", limit=15, offset=following)
    assert (ids(first + second), end) == (list(range(1, 21)), None)
    (one,) = client.retrieve("n", [7, 99], with_vectors=["bm25"])
    assert one.vector == {"bm25": models.SparseVector(indices=[1, 8], values=[1.0, 2.0])}
    facet = client.facet("n", "kind", exact=True)
    assert {(hit.value, hit.count) for hit in facet.hits} == {("a", 10), ("b", 10)}
    ordered, _ = client.scroll(
        "n", limit=2, order_by=models.OrderBy(key="n", direction=models.Direction.DESC)
    )
    assert ids(ordered) == [20, 19]


def test_payload_writes(client: QdrantClient, fresh: str) -> None:
    """Set merges, overwrite replaces, delete and clear remove; by ids or by filter."""
    client.upsert(fresh, [point(1), point(2), point(3)])
    second = models.Filter(must=[condition(key="n", match=models.MatchValue(value=2))])
    client.set_payload(fresh, {"n": 11}, points=[1])
    client.overwrite_payload(fresh, {"only": True}, points=second)
    client.delete_payload(fresh, ["n", "even", "half"], points=[3])
    payloads = [one.payload for one in client.retrieve(fresh, [1, 2, 3])]
    assert payloads == [{"n": 11, "even": False, "kind": "b", "half": 0.5}, {"only": True}, {"kind": "b"}]
    client.clear_payload(fresh, [1])
    assert client.retrieve(fresh, [1])[0].payload == {}


def test_points_are_replaced_and_deleted(client: QdrantClient, fresh: str) -> None:
    """Upserts by points and by columns replace; deletion is by ids or by filter."""
    client.upsert(fresh, [point(1), point(2)])
    client.upsert(
        fresh,
        models.Batch(
            ids=[2, 3],
            vectors={"dense": [[0.0, 1, 0, 0], [0.0, 1, 0, 0]]},
            payloads=[{"n": 22}, {"n": 33}],
        ),
    )
    assert client.retrieve(fresh, [2])[0].payload == {"n": 22}
    client.delete(
        fresh, models.FilterSelector(filter=models.Filter(must=[models.HasIdCondition(has_id=[3])]))
    )
    client.delete(fresh, [1])
    assert client.count(fresh).count == 1


def test_a_batch_of_writes_is_read_before_any_is_applied(
    server: QdrantProcess, client: QdrantClient, fresh: str
) -> None:
    """One bad operation in a batch leaves the collection as it was."""
    good = {"upsert": {"points": [{"id": 1, "vector": {"dense": [1, 0, 0, 0]}}]}}
    bad = {"delete": {"points": ["no id"]}}
    answer = httpx.post(f"{server.url}/collections/{fresh}/points/batch", json={"operations": [good, bad]})
    assert answer.status_code == 400
    assert client.count(fresh).count == 0


def test_definitions_are_told_back(client: QdrantClient) -> None:
    """A collection states its vectors, payload indexes with their options, and its counts; aliases are listed."""
    client.create_collection("defined", VECTORS, SPARSE)
    client.create_payload_index("defined", "t", models.KeywordIndexParams(type="keyword", is_tenant=True))
    client.create_payload_index("defined", "at", models.PayloadSchemaType.DATETIME)
    client.create_payload_index("defined", "words", models.TextIndexParams(type="text", tokenizer="word"))
    info = client.get_collection("defined")
    kinds = {name: index.data_type.value for name, index in info.payload_schema.items()}
    assert kinds == {"t": "keyword", "at": "datetime", "words": "text"}
    assert info.payload_schema["t"].params.is_tenant is True
    assert info.config.params.vectors["dense"].size == 4
    assert info.config.params.sparse_vectors["bm25"].modifier == models.Modifier.IDF
    client.delete_payload_index("defined", "at")
    assert "at" not in client.get_collection("defined").payload_schema
    assert [alias.alias_name for alias in client.get_collection_aliases("numbers").aliases] == ["n"]
    assert client.delete_collection("defined") is True
    assert client.collection_exists("defined") is False


def test_aliases_switch_together(client: QdrantClient, fresh: str) -> None:
    """A list of alias actions is applied whole or not at all."""
    create = models.CreateAliasOperation(
        create_alias=models.CreateAlias(collection_name=fresh, alias_name="moving")
    )
    wrong = models.CreateAliasOperation(
        create_alias=models.CreateAlias(collection_name="nowhere", alias_name="other")
    )
    with pytest.raises(UnexpectedResponse):
        client.update_collection_aliases([create, wrong])
    assert client.collection_exists("moving") is False
    client.update_collection_aliases([create])
    assert client.collection_exists("moving") is True


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("POST", "/collections/n/points/query", {"query": 7}, 501, "query by point id"),
        (
            "POST",
            "/collections/n/points/query",
            {"query": {"recommend": {"positive": [1]}}},
            501,
            "recommend",
        ),
        ("POST", "/collections/n/points/query", {"shard_key": "a"}, 501, "shard_key"),
        ("POST", "/collections/n/points/query", {"params": {"unheard": 1}}, 501, "unheard"),
        (
            "POST",
            "/collections/n/points/query",
            {"filter": {"must": [{"key": "a", "geo_radius": {}}]}},
            501,
            "geo",
        ),
        ("POST", "/collections/n/points/query/groups", {"group_by": "n"}, 501, "groups"),
        ("POST", "/collections/n/snapshots", None, 501, "snapshots"),
        ("GET", "/cluster", None, 501, "cluster"),
        (
            "PUT",
            "/collections/q",
            {"vectors": {"size": 4, "distance": "Dot"}, "shard_number": 3},
            501,
            "shard_number",
        ),
        ("PATCH", "/collections/n", {"params": {"replication_factor": 2}}, 501, "params"),
        ("PUT", "/collections/../x", {"vectors": {"size": 4, "distance": "Dot"}}, 404, "no such path"),
        ("PUT", "/collections/.hidden", {"vectors": {"size": 4, "distance": "Dot"}}, 400, "name"),
        ("PUT", "/collections/n", {"vectors": {"size": 4, "distance": "Dot"}}, 409, "already exists"),
        ("PUT", "/collections/q", {}, 400, "vectors"),
        ("GET", "/collections/nowhere", None, 404, "nowhere"),
        ("GET", "/collections/n/points/99", None, 404, "99"),
        ("GET", "/nothing", None, 404, "/nothing"),
        ("POST", "/collections/n/points/delete", {"points": []}, 400, "empty"),
        ("POST", "/collections/n/points/delete", {"filter": {}}, 400, "empty"),
        ("POST", "/collections/n/points/delete", {"filter": {"must": [{"must": []}]}}, 400, "empty"),
        ("POST", "/collections/n/points/payload", {"payload": {"a": 1}}, 400, "empty"),
        ("PUT", "/collections/n/points", {"points": [{"id": "x", "vector": {}}]}, 400, "point id"),
        ("PUT", "/collections/n/points", {"points": [{"id": 1, "vector": {"dense": [1]}}]}, 400, "imension"),
        ("PUT", "/collections/n/points", {"points": [{"id": 1, "vector": {"dense": ["a"]}}]}, 400, "numbers"),
        ("POST", "/collections/n/points/query", {"query": [1, 0, 0, 0], "using": "nope"}, 400, "nope"),
        ("POST", "/collections/n/points/query", {"limit": 0}, 400, "limit"),
        ("POST", "/collections/n/points/query", {"limit": True}, 400, "limit"),
        ("POST", "/collections/n/points/count", {"filter": {"must": [{"key": "n"}]}}, 400, "tests nothing"),
        (
            "POST",
            "/collections/n/points/count",
            {"filter": {"must": [{"key": "n", "match": {}}]}},
            400,
            "must hold",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    client: QdrantClient, server: QdrantProcess, method: str, path: str, body: Any, status: int, word: str
) -> None:
    """Unsupported: 501. Bad: 400. Unknown: 404. Taken: 409. Always Qdrant's error shape, naming the part."""
    answer = httpx.request(method, server.url + path, json=body)
    assert word in answer.json()["status"]["error"]
    assert answer.status_code == status
    assert client.count("n").count == 20


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b'{"limit": NaN}', b"\xff"])
def test_broken_json_is_refused(server: QdrantProcess, client: QdrantClient, body: bytes) -> None:
    """What is no JSON gets 400, however deep or strange."""
    answer = httpx.post(f"{server.url}/collections/n/points/query", content=body)
    assert answer.status_code == 400
    assert "JSON" in answer.json()["status"]["error"]


def test_browsers_and_other_names_are_turned_away(server: QdrantProcess) -> None:
    """A page in a browser can reach loopback, but it sends its origin, or another host name after rebinding."""
    for headers in ({"origin": "https://example.com"}, {"host": "rebound.example.com"}):
        assert httpx.get(f"{server.url}/collections", headers=headers).status_code == 403


def test_a_body_beyond_the_limit_is_refused(server: QdrantProcess) -> None:
    """Bodies end at 32 MiB, whether the length is declared or not."""
    piece = b" " * 1_048_576
    for content in (piece * 33, (piece for _ in range(33))):
        answer = httpx.post(f"{server.url}/collections/n/points/query", content=content, timeout=30)
        assert answer.status_code == 413
