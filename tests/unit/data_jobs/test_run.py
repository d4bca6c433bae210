"""Sync runs over twins of the stores, with the real connector, parser and encoders of terms."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from adapters.bm25 import Bm25Encoder
from cortex.documents import Acl, Grant, GrantKind
from cortex.errors import InputError, Unavailable
from cortex.ids import source_id
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings
from data_jobs import patience, run
from data_jobs.ingest import LocalWork, build_load
from data_jobs.parts import Models, Stores
from data_jobs.rows import Row
from data_jobs.run import IngestReport, Load, RunStopped, SyncRun
from data_jobs.stages.parse import ParseStage
from tests.twins.embedder import HashingEmbedder
from tests.twins.stores import Fuse, PowerCut, TwinCatalog, TwinIndex, TwinObjects

ANA = Grant(GrantKind.USER, "ana")


@dataclass(slots=True)
class World:
    """A folder and the stores it is loaded into."""

    root: Path
    settings: Settings
    parse: ParseStage
    fuse: Fuse = field(default_factory=Fuse)
    embedder: Any = field(default_factory=HashingEmbedder)
    catalog: TwinCatalog = field(init=False)
    index: TwinIndex = field(init=False)
    objects: TwinObjects = field(init=False)

    def __post_init__(self) -> None:
        self.catalog, self.index = TwinCatalog(self.fuse), TwinIndex(self.fuse)
        self.objects = TwinObjects(self.fuse)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def planned(self, collection: str = "default", allows_empty: bool = False) -> Load:
        name = str(self.root)
        config = SourceConfig(
            "acme", source_id("acme", "files", name), "files", name, collection, {"root": name}
        )
        return build_load(
            self.settings,
            config,
            self.models.names,
            allows_empty=allows_empty,
            on_progress=lambda counts: None,
        )

    @property
    def models(self) -> Models:
        return Models(self.embedder, Bm25Encoder.from_settings(self.settings))

    def load(self, collection: str = "default", allows_empty: bool = False) -> IngestReport:
        load = self.planned(collection, allows_empty)
        stores = Stores(self.catalog, self.index, self.objects)
        work = LocalWork(self.settings, load.connector, self.parse, lambda: stores, self.models)
        return SyncRun(load, self.catalog).run(work)

    def relay(self) -> None:
        """Delete what the outbox holds, but what came back into use."""
        used = {
            chunk.chunk_id
            for held in self.catalog.documents.values()
            for version in (held.shown, held.staged)
            for chunk in (version.chunks if version else ())
        }
        self.index.delete_chunks(sorted(self.catalog.obsolete - used))
        self.catalog.obsolete.clear()

    def content(self) -> tuple[Any, ...]:
        """Return what readers can get: documents with their chunks and viewers, and the points of the index."""
        self.relay()
        documents = {
            held.external_id: (held.shown.chunks, held.shown.near_duplicate_of)
            for held in self.catalog.documents.values()
            if held.shown and not held.is_deleted
        }
        points = {(point.chunk_id, point.document_id, point.group_id) for point in self.index.points.values()}
        return documents, self.catalog.viewers(), points


@pytest.fixture(scope="module")
def parse() -> Iterator[ParseStage]:
    with ParseStage(Settings()) as stage:
        yield stage


@pytest.fixture
def world(tmp_path: Path, parse: ParseStage, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    root = tmp_path / "root"
    root.mkdir()
    made = World(root, Settings(home=tmp_path / "home"), parse)
    made.write(".cortex-access.yaml", "viewers: {users: [ana]}\ngroups: {eng: {users: [bo]}}\n")
    made.write("a.md", "# Alpha\n\nThe first page is about queues and how they are drained.\n")
    made.write("b/c.txt", "The second page is about wings and how much they lift.\n")
    return made


def counts(report: IngestReport) -> tuple[int, int, int, int]:
    return report.indexed, report.unchanged, report.removed, len(report.failed)


def reasons(report: IngestReport) -> dict[str, str]:
    return {failed.path: failed.code for failed in report.failed}


def test_a_first_run_indexes_and_a_second_changes_nothing(world: World) -> None:
    """The second run writes neither documents nor points, and says so."""
    assert counts(world.load()) == (2, 0, 0, 0)
    assert world.catalog.titles() == {"a.md": "Alpha", "b/c.txt": "c.txt"}
    assert world.catalog.users == {"ana", "bo"}
    before, n_upserts = world.content(), world.index.n_upserts
    assert counts(world.load()) == (0, 2, 0, 0)
    assert (world.content(), world.index.n_upserts) == (before, n_upserts)


def test_raw_payloads_are_kept_by_their_hash(world: World) -> None:
    """Every indexed document's bytes are in the object store under the hash the catalog states."""
    world.load()
    shown = [held.shown.document.content_sha256 for held in world.catalog.documents.values() if held.shown]
    assert sorted(world.objects.content) == sorted(shown)


def test_an_edit_replaces_exactly_one_document(world: World) -> None:
    """Only the edited document is made again, and its old points go."""
    world.load()
    world.write("a.md", "# Beta\n\nAnother text altogether.\n")
    assert counts(world.load()) == (1, 1, 0, 0)
    world.relay()
    assert world.catalog.titles()["a.md"] == "Beta"
    assert world.index.count("acme") == 2


def test_a_touch_is_read_once_and_then_forgotten(world: World) -> None:
    """A file with a new date and the same bytes is unchanged, and the run after that does not read it again."""
    world.load()
    n_upserts = world.index.n_upserts
    os.utime(world.root / "a.md")
    assert counts(world.load()) == (0, 2, 0, 0)
    fingerprints = {
        held.external_id: held.shown.fingerprint for held in world.catalog.documents.values() if held.shown
    }
    assert fingerprints["a.md"].startswith(f"{(world.root / 'a.md').stat().st_size}:")
    assert str((world.root / "a.md").stat().st_mtime_ns) in fingerprints["a.md"]
    assert world.index.n_upserts == n_upserts


def test_a_removed_file_is_hidden(world: World) -> None:
    """What is gone from the folder is gone from catalog and index."""
    world.load()
    (world.root / "a.md").unlink()
    assert counts(world.load()) == (0, 1, 1, 0)
    world.relay()
    assert set(world.catalog.titles()) == {"b/c.txt"}
    assert world.index.count("acme") == 1


def test_a_file_that_comes_back_is_indexed_again(world: World) -> None:
    """A tombstone is no obstacle to the same file later."""
    world.load()
    text = (world.root / "a.md").read_text()
    before = world.content()
    (world.root / "a.md").unlink()
    world.load()
    world.write("a.md", text)
    assert counts(world.load()) == (1, 1, 0, 0)
    assert world.content() == before


def test_access_is_written_without_touching_content(world: World) -> None:
    """A changed access file changes who may read, and no document is made again."""
    world.load()
    n_upserts = world.index.n_upserts
    world.write("b/.cortex-access.yaml", "viewers: {everyone: true}\n")
    report = world.load()
    assert (counts(report), report.access_changed) == ((0, 2, 0, 0), 1)
    assert world.catalog.viewers() == {"a.md": {ANA}, "b/c.txt": {Grant(GrantKind.EVERYONE)}}
    assert world.index.n_upserts == n_upserts
    assert world.load().access_changed == 0


def test_a_broken_access_file_closes_what_was_open(world: World) -> None:
    """Once an access file cannot be read any more, nobody may read below it, and the report says why."""
    world.load()
    world.write("b/.cortex-access.yaml", "viewers: {users: [ana\n")
    assert reasons(world.load()) == {"b/.cortex-access.yaml": "access.malformed"}
    assert world.catalog.viewers() == {"a.md": {ANA}, "b/c.txt": frozenset()}


def test_groups_follow_the_access_file(world: World) -> None:
    """A member removed from the root's access file is removed from the group."""
    world.load()
    world.write(".cortex-access.yaml", "viewers: {users: [ana]}\ngroups: {eng: {users: [cy]}}\n")
    world.load()
    (edges,) = world.catalog.memberships.values()
    assert [(edge.group_name, edge.member.name) for edge in edges] == [("eng", "cy")]


def test_another_collection_makes_everything_again(world: World) -> None:
    """The collection is part of every point, so loading into another one indexes the documents anew."""
    world.load()
    assert counts(world.load(collection="other")) == (2, 0, 0, 0)
    assert {point.collection for point in world.index.points.values()} == {"other"}


def test_a_vanished_root_removes_nothing(world: World) -> None:
    """A root that cannot be listed ends the run with a reason, and everything stays."""
    world.load()
    before = world.content()
    world.root.rename(world.root.with_name("elsewhere"))
    with pytest.raises(InputError) as caught:
        world.load()
    assert caught.value.error_code == "source.unreadable"
    assert world.content() == before
    assert world.catalog.runs["run-2"]["status"] == "failed"


def test_an_empty_root_removes_nothing_unless_it_is_meant(world: World) -> None:
    """A mount point without its mount is an empty folder: only on request does that remove what was loaded."""
    world.load()
    before = world.content()
    moved = world.root.rename(world.root.with_name("elsewhere"))
    world.root.mkdir()
    with pytest.raises(InputError) as caught:
        world.load()
    assert (caught.value.error_code, world.content()) == ("source.empty", before)
    assert counts(world.load(allows_empty=True)) == (0, 0, 2, 0)
    assert moved.exists()


def test_what_is_out_of_sight_is_not_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents below a folder that cannot be listed stay; those beside it that are gone go."""
    world.write("z.md", "This page stays where it is.")
    world.load()
    (world.root / "a.md").unlink()
    scandir = os.scandir

    def refuse(path: Path) -> Any:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    report = world.load()
    assert (counts(report), reasons(report)) == ((0, 1, 1, 1), {"b": "folder.unreadable"})
    assert set(world.catalog.titles()) == {"b/c.txt", "z.md"}


def test_a_file_replaced_by_a_link_is_gone(world: World) -> None:
    """A link is not followed, so the document that stood there is no longer the source's."""
    world.load()
    (world.root / "a.md").unlink()
    (world.root / "a.md").symlink_to("/etc/hostname")
    assert counts(world.load()) == (0, 1, 1, 1)


def test_a_bad_file_fails_alone(world: World) -> None:
    """Files without text, and files that break a parser, are listed with reasons; the rest is indexed."""
    world.write("empty.txt", "")
    world.write("broken.pdf", "%PDF-1.7 nothing follows")
    report = world.load()
    assert counts(report) == (2, 0, 0, 2)
    assert set(reasons(report)) == {"empty.txt", "broken.pdf"}
    assert all(code.startswith("document.") for code in reasons(report).values())
    assert world.catalog.runs["run-1"]["status"] == "succeeded"


def test_what_is_left_out_on_purpose_is_no_failure(world: World) -> None:
    """Hidden names and lock files are counted by kind, in the report and in the run's row; nothing of it has failed."""
    for name in (".git/HEAD", ".env", "~$plan.docx"):
        world.write(name, "x")
    report = world.load()
    assert (counts(report), report.failed) == ((2, 0, 0, 0), ())
    assert [(kind.code, kind.n, kind.example) for kind in report.skipped] == [
        ("file.lock", 1, "~$plan.docx"),
        ("name.hidden", 2, ".env"),
    ]
    run_row = world.catalog.runs[report.run_id]
    assert (run_row["skipped"], run_row["counts"]["skipped"]) == (list(report.skipped), 3)


def test_a_document_that_a_store_refuses_fails_alone(world: World) -> None:
    """One refused value in a batch costs that document alone."""
    world.catalog.refuses = "Alpha"
    report = world.load()
    assert (counts(report), reasons(report)) == ((1, 0, 0, 1), {"a.md": "catalog.refused"})


def test_a_document_that_breaks_the_encoder_fails_alone(world: World) -> None:
    """An unexpected error in a batch is traced to its document, and reported without its text."""

    class Picky(HashingEmbedder):
        def embed_documents(self, texts: Any) -> Any:
            if any("wings" in text for text in texts):
                raise RuntimeError("secret text")
            return super().embed_documents(texts)

    world.embedder = Picky()
    report = world.load()
    assert (counts(report), reasons(report)) == ((1, 0, 0, 1), {"b/c.txt": "document.unexpected"})
    assert "secret" not in report.failed[0].reason


def test_a_document_whose_text_is_gone_is_hidden(world: World) -> None:
    """When a file is replaced by one without text, its old text no longer answers."""
    world.load()
    world.write("a.md", "")
    assert reasons(world.load()) == {"a.md": "document.empty"}
    assert set(world.catalog.titles()) == {"b/c.txt"}


def test_a_file_that_vanishes_while_it_is_loaded_is_a_failure(world: World) -> None:
    """A file that is gone when its turn comes is reported, and the next run takes it as removed or new."""
    world.write("late.md", "Late.")

    class Slow(HashingEmbedder):
        def count_tokens(self, text: str) -> int:
            (world.root / "late.md").unlink(missing_ok=True)
            return super().count_tokens(text)

    world.embedder = Slow()
    assert reasons(world.load()) == {"late.md": "file.vanished"}


def test_near_duplicates_join_one_group(world: World) -> None:
    """A copy under another name carries the group of the first."""
    world.write("copy.md", (world.root / "a.md").read_text())
    world.load()
    groups = {
        world.catalog.documents[point.document_id].external_id: point.group_id
        for point in world.index.points.values()
    }
    assert groups["a.md"] == groups["copy.md"] != groups["b/c.txt"]


def test_an_engine_that_stays_away_ends_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """That an engine is down is no document's fault: the run fails as a whole and the next one does the work."""

    def refuse(points: Any) -> None:
        raise Unavailable("the index does not answer", code="index.unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(TwinIndex, "upsert", lambda self, points: refuse(points))
        with pytest.raises(Unavailable):
            world.load()
    run = world.catalog.runs["run-1"]
    assert (run["status"], run["failures"][-1].code) == ("failed", "index.unavailable")
    assert counts(world.load()) == (2, 0, 0, 0)


def test_a_power_cut_at_any_write_loses_and_repeats_nothing(
    tmp_path: Path, parse: ParseStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut before every single write in turn, the next run ends where an undisturbed one does."""

    def scenario(world: World) -> Iterator[None]:
        for number in range(6):
            world.write(f"{number}.md", f"# Page {number}\n\nText {number} of words.\n")
        yield
        world.write("0.md", "# Changed\n\nOther words.\n")
        world.write("copy.md", (world.root / "1.md").read_text())
        (world.root / "2.md").unlink()
        world.write("sub/.cortex-access.yaml", "viewers: {everyone: true}\n")
        world.write("sub/new.md", "# New\n\nFresh words.\n")
        yield

    def prepared(name: str) -> tuple[World, Iterator[None]]:
        root = tmp_path / name / "root"
        root.mkdir(parents=True)
        made = World(root, Settings(home=tmp_path / name), parse)
        made.write(".cortex-access.yaml", "viewers: {users: [ana]}\n")
        return made, scenario(made)

    def shape(world: World) -> tuple[Any, ...]:
        """The content with ids replaced, as the roots' paths differ."""
        documents, viewers, points = world.content()
        names = {key: held.external_id for key, held in world.catalog.documents.items()}
        texts = {name: [chunk.text for chunk in made[0]] for name, made in documents.items()}
        return texts, viewers, sorted((names[point[1]], names[point[2]]) for point in points)

    calm, steps = prepared("calm")
    expected, n_writes = [], []
    for _ in steps:
        before = calm.fuse.n_writes
        calm.load()
        n_writes.append(calm.fuse.n_writes - before)
        expected.append(shape(calm))
    assert min(n_writes) > 10
    for cut in range(1, max(n_writes) + 1):
        world, steps = prepared(f"cut-{cut}")
        for step, _ in enumerate(steps):
            if cut <= n_writes[step]:
                world.fuse.blows_at = world.fuse.n_writes + cut
                with pytest.raises(PowerCut):
                    world.load()
                world.fuse.blows_at = 0
            world.load()
            assert (cut, step, shape(world)) == (cut, step, expected[step])


def test_an_unknown_list_keeps_the_known_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the source cannot say who may read any more, what it said before stays."""
    world.load()
    monkeypatch.setattr("connectors.files.FilesConnector.acls", lambda self, item: Acl(is_known=False))
    assert world.load().access_changed == 0
    assert world.catalog.viewers()["a.md"] == {ANA}


def test_a_run_that_is_told_to_stop_keeps_what_it_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends as stopped, its documents can be searched, and the next run does the rest."""
    monkeypatch.setattr(run, "_PUBLISH_EVERY_S", 0.0)
    world.catalog.unwanted.add("run-1")
    with pytest.raises(RunStopped) as caught:
        world.load()
    assert (caught.value.error_code, world.catalog.runs["run-1"]["status"]) == ("run.stopped", "stopped")
    assert counts(world.load())[3] == 0
    assert world.catalog.titles() == {"a.md": "Alpha", "b/c.txt": "c.txt"}


def test_a_run_is_stopped_also_while_it_waits_for_a_document(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two pieces of a large document a request to stop is seen; nothing of it is written."""
    monkeypatch.setattr(run, "_PUBLISH_EVERY_S", 0.0)
    world.catalog.unwanted.add("run-1")

    def waiting(rows: Iterator[Row]) -> Generator[Row | None, None, None]:
        yield None
        raise AssertionError("it went on")

    with pytest.raises(RunStopped):
        SyncRun(world.planned(), world.catalog).run(waiting)
    assert world.catalog.titles() == {}
