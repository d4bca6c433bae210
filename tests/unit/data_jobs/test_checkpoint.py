"""The checkpoint between parse and embed, the portions of a listing, and what happens to a document that kills its worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.bm25 import Bm25Encoder
from connectors.registry import build_connector
from cortex.documents import EVERYONE, Item
from cortex.settings import Settings
from data_jobs.attempts import Attempts
from data_jobs.checkpoint import CHUNKS_PER_PIECE, Checkpoint, Part, checkpoint_folder
from data_jobs.parts import Models, build_objects
from data_jobs.portions import Portion, portions, windows
from data_jobs.ray_stages import EmbedPieces, Job, PreparePortions
from data_jobs.rows import Row
from data_jobs.sources import files_source
from data_jobs.stages.parse import ParseStage
from data_jobs.work import EmbedRows, build_prepare, prepare_one
from tests.twins.embedder import HashingEmbedder

LONG = "\n\n".join(f"Paragraph {n} of many. " + f"Word{n} follows another here. " * 60 for n in range(50))


class Bench:
    """A folder, its rows as listed, and the stages of both actors without Ray."""

    def __init__(self, root: Path, settings: Settings, parse: ParseStage) -> None:
        self.config = files_source(settings, root)
        self.job = Job(
            settings, self.config, checkpoint_folder(settings, self.config.source_id, "recipe", "v1")
        )
        self.models = Models(HashingEmbedder(), Bm25Encoder.from_settings(settings))
        self.connector = build_connector(self.config)
        self.stage = build_prepare(
            settings, self.connector, parse, build_objects(settings), self.models.embedder
        )
        self.checkpoint = Checkpoint(self.job.folder)
        self.checkpoint.open()
        self.job.attempts.reset()

    def rows(self) -> list[Row]:
        return [
            Row(item, EVERYONE, item.meta["fingerprint"])
            for item in self.connector.fetch("")
            if isinstance(item, Item)
        ]

    def prepared(self) -> list[Row]:
        return [prepare_one(self.stage, row) for row in self.rows()]

    def prepare_actor(self) -> PreparePortions:
        actor = PreparePortions.__new__(PreparePortions)
        actor._checkpoint, actor._attempts, actor._prepare = self.checkpoint, self.job.attempts, self.stage
        return actor

    def embed_actor(self) -> EmbedPieces:
        actor = EmbedPieces.__new__(EmbedPieces)
        actor._checkpoint, actor._attempts = self.checkpoint, self.job.attempts
        actor._embed, actor._is_on_gpu = EmbedRows(self.models), False
        actor._dimension = self.models.embedder.dimension
        return actor

    def embed_all(self) -> None:
        (portion,) = portions(iter(self.rows()), {})
        self.embed_actor()(self.prepare_actor()({"portion": [portion]}))


@pytest.fixture(scope="module")
def parse() -> Iterator[ParseStage]:
    with ParseStage(Settings()) as stage:
        yield stage


@pytest.fixture
def bench(tmp_path: Path, parse: ParseStage) -> Bench:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.md").write_text("# Alpha\n\nQueues are drained at night. Ünïcödé 水曜日.\n")
    (root / "b.txt").write_text(LONG)
    (root / "c.pdf").write_text("%PDF-1.4")
    return Bench(root, Settings(home=tmp_path / "home"), parse)


def listed(n: int, size_bytes: int = 10) -> list[Row]:
    return [
        Row(Item(f"{i:03}", "text/plain", path="x", size_bytes=size_bytes), EVERYONE, "f") for i in range(n)
    ]


def test_what_comes_back_is_what_embedding_in_one_process_makes(bench: Bench) -> None:
    """Documents, chunks, dense and sparse vectors and failures survive the files, bit for bit."""
    bench.embed_all()
    (portion,) = portions(iter(bench.rows()), {})
    part = bench.checkpoint.find(portion.name)
    assert part is not None
    assert part.n_pieces > 1
    for done, expected in zip(
        bench.checkpoint.complete(part, portion.rows),
        EmbedRows(bench.models)(_going(bench.prepared())),
        strict=False,
    ):
        assert replace(done, vectors=()) == replace(expected, vectors=())
        assert [v.sparse for v in done.vectors] == [v.sparse for v in expected.vectors]
        assert [v.dense.tolist() for v in done.vectors] == [v.dense.tolist() for v in expected.vectors]
    broken = bench.checkpoint.complete(part, portion.rows)[-1]
    assert broken.failure is not None
    assert broken.failure.external_id == "c.pdf"


def _going(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.is_going_on]


def test_pieces_hold_the_shortest_chunks_first(bench: Bench) -> None:
    """Chunks of all documents of a part are sorted by length, in pieces of bounded size."""
    part = bench.checkpoint.save("part", bench.prepared())
    pieces = [bench.checkpoint.piece(part, number) for number in range(part.n_pieces)]
    lengths = [chunk.n_tokens for piece in pieces for chunk in piece]
    assert lengths == sorted(lengths)
    assert max(map(len, pieces)) <= CHUNKS_PER_PIECE


def test_the_next_run_finds_what_is_prepared(bench: Bench) -> None:
    """Prepared documents are found by id and fingerprint, and cut together again; a failure that may pass is not."""
    prepared = bench.prepared()
    prepared.append(listed(1)[0].failed("document.timeout", "too slow"))
    part = bench.checkpoint.save("part", prepared)
    found = bench.checkpoint.open()
    assert {external_id for external_id, _ in found} >= {"a.md", "b.txt"}
    assert "000" not in {external_id for external_id, _ in found}
    assert set(found.values()) == {part}
    cut = list(portions(iter([*bench.rows()[:2], *listed(2)]), found))
    assert [(portion.is_prepared, len(portion.rows), portion.first) for portion in cut] == [
        (True, 2, 0),
        (False, 2, 2),
    ]


def test_another_recipe_starts_afresh(bench: Bench) -> None:
    """Opening the folder of another recipe deletes what this one left, and nothing else; settling all deletes everything."""
    bench.checkpoint.save("part", bench.prepared())
    neighbour = bench.job.folder.with_name("somebody-elses")
    neighbour.mkdir()
    other = Checkpoint(bench.job.folder.with_name("other-0123abcd"))
    assert other.open() == {}
    assert not bench.job.folder.exists()
    assert neighbour.exists(), "what no checkpoint is called stays"
    other.clear()
    assert not bench.job.folder.parent.exists()


def test_a_dropped_part_leaves_no_file(bench: Bench) -> None:
    """Dropping a part deletes its documents, chunks and vectors."""
    bench.embed_all()
    (portion,) = portions(iter(bench.rows()), {})
    part = bench.checkpoint.find(portion.name)
    assert part is not None
    bench.checkpoint.drop(part)
    assert [path.name for path in bench.job.folder.iterdir()] == ["attempts"]
    assert list((bench.job.folder / "attempts").iterdir()) == []


def test_finished_work_is_not_repeated(bench: Bench) -> None:
    """A worker that is given its portion or piece again prepares and embeds nothing that is on disk."""
    bench.embed_all()
    (portion,) = portions(iter(bench.rows()), {})
    prepare, embed = bench.prepare_actor(), bench.embed_actor()
    prepare._prepare = embed._embed = None  # type: ignore[assignment]  # whoever calls them fails
    assert embed(prepare({"portion": [portion]}))["name"][0] == portion.name


@pytest.mark.parametrize(("n_deaths", "is_poison"), [(2, False), (3, True)])
def test_a_document_that_kills_its_preparer_three_times_is_set_aside(
    bench: Bench, n_deaths: int, is_poison: bool
) -> None:
    """After three deaths it is a dead letter with a reason; the rest of its portion is prepared."""
    for _ in range(n_deaths):
        bench.job.attempts.begin("a.md")
    bench.embed_all()
    (portion,) = portions(iter(bench.rows()), {})
    part = bench.checkpoint.find(portion.name)
    assert part is not None
    first, second, _ = bench.checkpoint.complete(part, portion.rows)
    assert (first.failure.code if first.failure else "") == ("document.poison" if is_poison else "")
    assert second.chunks


def test_a_document_that_kills_its_embedder_is_found_and_set_aside(bench: Bench) -> None:
    """The second time a piece is embedded document by document; the one that dies there twice more has no vectors."""
    (portion,) = portions(iter(bench.rows()), {})
    pieces = bench.prepare_actor()({"portion": [portion]})
    part = bench.checkpoint.find(portion.name)
    assert part is not None
    document_id = bench.prepared()[0].chunks[0].document_id
    for number in range(part.n_pieces):
        bench.job.attempts.begin(f"{part.name}.{number}")
        for _ in range(2):
            bench.job.attempts.begin(f"{part.name}.{number}.{document_id}")
    bench.embed_actor()(pieces)
    first, second, _ = bench.checkpoint.complete(part, portion.rows)
    assert first.failure is not None
    assert first.failure.code == "document.poison"
    assert len(second.vectors) == len(second.chunks) > 0


def test_attempts_count_what_never_ended(tmp_path: Path) -> None:
    """Starts that ended are forgotten, and a new run forgets all."""
    attempts = Attempts(tmp_path / "attempts")
    attempts.reset()
    assert [attempts.begin("x"), attempts.begin("x"), attempts.begin("y")] == [0, 1, 0]
    attempts.end("x")
    assert attempts.begin("x") == 0
    attempts.reset()
    assert attempts.begin("y") == 0


def test_a_listing_is_cut_without_loss() -> None:
    """Portions tile the listing in order, bounded in rows and in bytes; windows tile the portions."""
    rows = [*listed(70), *(replace(row, fingerprint="big") for row in listed(3, size_bytes=3_000_000))]
    cut = list(portions(iter(rows), {}))
    assert [row for portion in cut for row in portion.rows] == rows
    assert [len(portion.rows) for portion in cut] == [32, 32, 8, 1]
    assert [portion.first for portion in cut] == [0, 32, 64, 72]
    assert [portion for window in windows(iter(cut)) for portion in window] == cut
    assert len({portion.name for portion in cut}) == len(cut)


def test_documents_prepared_together_but_listed_apart_are_cut_once() -> None:
    """A part is used by the first portion that asks for it: it is dropped with that one."""
    rows = listed(3)
    part = Part("p", 1)
    cut: list[Portion] = list(portions(iter(rows), {("000", "f"): part, ("002", "f"): part}))
    assert [(portion.name == "p", [row.item.external_id for row in portion.rows]) for portion in cut] == [
        (True, ["000"]),
        (False, ["001", "002"]),
    ]
