"""Objects are stored once under the hash of their bytes, and what is loaded is what was stored."""

import os
import time
from pathlib import Path

import pytest

from adapters.objects import LITTER_AFTER, ObstoreObjects
from cortex.errors import Corrupt, NotFound, Unavailable
from cortex.ids import sha256_hex
from cortex.settings import Settings


@pytest.fixture
def objects(tmp_path: Path) -> ObstoreObjects:
    return ObstoreObjects.from_settings(Settings(home=tmp_path))


def test_what_is_put_twice_is_stored_once(objects: ObstoreObjects, tmp_path: Path) -> None:
    """The second put finds the first."""
    assert objects.put(b"ledger") == objects.put(b"ledger") == sha256_hex(b"ledger")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [sha256_hex(b"ledger")]
    assert objects.get(sha256_hex(b"ledger")) == b"ledger"


def test_a_missing_object_is_not_found_and_may_be_deleted(objects: ObstoreObjects) -> None:
    """Deleting twice is no error; loading what is gone is."""
    sha256 = objects.put(b"")
    objects.delete(sha256)
    objects.delete(sha256)
    with pytest.raises(NotFound):
        objects.get(sha256)


def test_changed_bytes_are_corrupt(objects: ObstoreObjects, tmp_path: Path) -> None:
    """A file that was written to on disk is not handed out."""
    sha256 = objects.put(b"ledger")
    next(path for path in tmp_path.rglob(sha256)).write_bytes(b"forged")
    with pytest.raises(Corrupt):
        objects.get(sha256)


def test_a_store_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    """The folder's place is taken by a file after the store was opened."""
    objects = ObstoreObjects.from_settings(Settings(home=tmp_path))
    (tmp_path / "objects").rmdir()
    (tmp_path / "objects").write_text("in the way")
    with pytest.raises(Unavailable):
        objects.put(b"ledger")


def test_a_file_url_names_the_folder(tmp_path: Path) -> None:
    """`CORTEX_OBJECTS_URL` replaces the home's folder."""
    folder = tmp_path / "elsewhere"
    settings = Settings(home=tmp_path / "home", objects_url=folder.as_uri())
    assert ObstoreObjects.from_settings(settings).put(b"x") == sha256_hex(b"x")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [sha256_hex(b"x")]


def age(folder: Path, sha256: str, hours: float) -> Path:
    """Make an object look as if it was written that long ago."""
    path = next(folder.rglob(sha256))
    written_s = time.time() - hours * 3_600
    os.utime(path, (written_s, written_s))
    return path


def age_of(folder: Path, sha256: str) -> int:
    return next(folder.rglob(sha256)).stat().st_mtime_ns


def test_what_is_found_old_becomes_young(objects: ObstoreObjects, tmp_path: Path) -> None:
    """A load that finds old litter and relies on it keeps it from being collected; young objects are not written again."""
    sha256 = objects.put(b"ledger")
    young = age(tmp_path, sha256, hours=11).stat().st_mtime_ns
    objects.put(b"ledger")
    assert age_of(tmp_path, sha256) == young
    age(tmp_path, sha256, hours=25)
    assert objects.is_older(sha256, LITTER_AFTER)
    objects.put(b"ledger")
    assert not objects.is_older(sha256, LITTER_AFTER)
    assert objects.get(sha256) == b"ledger"
