"""A load of a vault over twins of the stores: links follow what is there, and a second run has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.bm25 import Bm25Encoder
from cortex.settings import Settings
from data_jobs.ingest import LocalWork, build_load
from data_jobs.links import LinkReport, OpenLink
from data_jobs.parts import Models, Stores
from data_jobs.run import IngestReport, SyncRun
from data_jobs.sources import Naming, vault_source
from data_jobs.stages.parse import ParseStage
from tests.twins.embedder import HashingEmbedder
from tests.twins.stores import TwinCatalog, TwinIndex, TwinObjects


class Loads:
    """Loads one folder into the same stores again and again."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "vault"
        self.root.mkdir()
        self.settings = Settings(home=folder / "home")
        self.parse = ParseStage(self.settings)
        self.catalog = TwinCatalog()
        self.stores = Stores(catalog=self.catalog, index=TwinIndex(), objects=TwinObjects())

    def __call__(self) -> IngestReport:
        models = Models(HashingEmbedder(), Bm25Encoder.from_settings(self.settings))
        config = vault_source(self.settings, self.root, Naming("notes", "default"))
        load = build_load(
            self.settings, config, models.names, allows_empty=False, on_progress=lambda counts: None
        )
        work = LocalWork(self.settings, load.connector, self.parse, lambda: self.stores, models)
        return SyncRun(load, self.catalog).run(work)


@pytest.fixture
def loads(tmp_path: Path) -> Iterator[Loads]:
    loads = Loads(tmp_path)
    yield loads
    loads.parse.close()


def test_links_follow_their_targets_from_run_to_run(loads: Loads) -> None:
    """A link dangles, resolves when its note comes, follows it when it moves, and dangles when it goes."""
    (loads.root / "a.md").write_text("Zuerst: é [[b]] #tag\n")
    missing = LinkReport(dangling=1, external=1, open=(OpenLink("a.md", 11, "b", "dangling"),))
    assert loads().links == missing
    (loads.root / "b.md").write_text("The other.\n")
    second = loads()
    assert (second.indexed, second.unchanged, second.links) == (1, 1, LinkReport(resolved=1, external=1))
    (loads.root / "sub").mkdir()
    (loads.root / "b.md").rename(loads.root / "sub" / "b.md")
    assert loads().links == LinkReport(resolved=1, external=1)
    (loads.root / "sub" / "b.md").unlink()
    assert loads().links == missing


def test_a_second_run_changes_nothing(loads: Loads) -> None:
    """What is as it was is neither read into new versions nor linked anew."""
    for name, text in {
        "a.md": "[[b]]",
        "b.md": "[[a]] [[c]]",
        "n.org": ":PROPERTIES:\n:ID: i\n:END:\n[[id:i]]",
    }.items():
        (loads.root / name).write_text(text)
    first, versions = loads(), {key: held.shown for key, held in loads.catalog.documents.items()}
    second = loads()
    assert (first.indexed, second.indexed, second.unchanged, second.removed) == (3, 0, 3, 0)
    assert (
        second.links
        == first.links
        == LinkReport(resolved=3, dangling=1, open=(OpenLink("b.md", 6, "c", "dangling"),))
    )
    assert {key: held.shown for key, held in loads.catalog.documents.items()} == versions
