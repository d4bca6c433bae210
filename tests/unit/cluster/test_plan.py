"""The plan of `cortex doctor`: what is measured on this machine, and the verdict."""

import os
from pathlib import Path

from cluster.plan import folder_bytes, plan_resources
from cluster.state import EngineState, Phase, ProcessRecord, RunState
from cortex.settings import Settings


def test_what_a_folder_takes_is_what_the_disk_gives(tmp_path: Path) -> None:
    """Blocks are counted, not lengths: a file with a hole takes what is written, and each file a block at least."""
    (tmp_path / "small").write_bytes(b"x")
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(50_000_000)
    assert 0 < folder_bytes(tmp_path) < 1_000_000
    assert folder_bytes(tmp_path / "nowhere") == 0


def test_a_home_that_does_not_run_is_planned(tmp_path: Path) -> None:
    """Without a catalog the usual proportions are planned, and this machine has room for the smallest step."""
    made = plan_resources(Settings(home=tmp_path))
    assert (made.n_chunks, made.steps) == (0, (10_000, 100_000, 1_000_000))
    assert made.disk.step_bytes == tuple(
        map(sum, zip(*(part.step_bytes for part in made.disk.parts), strict=True))
    )
    assert made.disk.fits == tuple(step <= made.disk.free_bytes for step in made.disk.step_bytes)


def test_what_is_on_a_server_is_not_counted_here(tmp_path: Path) -> None:
    """A server's part is shown, but takes none of this machine's disk."""
    settings = Settings(home=tmp_path)
    settings.state_path.parent.mkdir()
    engines = {"qdrant": EngineState(Phase.READY, 0, is_embedded=False)}
    RunState(ProcessRecord.of(os.getpid()), engines, {}).write(settings.state_path)
    made = plan_resources(settings)
    here = {part.name: part.is_here for part in made.disk.parts}
    assert here == {"catalog": True, "index": False, "index, while it optimizes": False, "objects": True}
    assert made.disk.step_bytes[0] == sum(part.step_bytes[0] for part in made.disk.parts if part.is_here)
