"""Backup and restore on real engines: taken while documents change, restored into an empty home, equal in all that counts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cortex.errors import Conflict, Corrupt, InputError
from data_jobs.backup import backup
from data_jobs.backup_files import read_manifest, verify
from data_jobs.consistency.check import check
from data_jobs.restore import restore
from tests.services.homes import ScratchHome
from tests.services.loaded_home import LoadedHome, loaded_home

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def home() -> Iterator[LoadedHome]:
    """A home of this module's own: a folder is changed while it is backed up."""
    with loaded_home() as made:
        yield made


def take(home: LoadedHome, target: Path, with_keys: bool = False) -> Path:
    backup(home.settings, target, with_keys=with_keys, on_progress=lambda what, n: None)
    return target


def test_a_backup_is_restored_into_an_empty_home(
    home: LoadedHome, new_home: Callable[..., ScratchHome], tmp_path: Path
) -> None:
    """Hashes, permissions and every table's rows are those of the moment of the backup; all stores agree."""
    before, people = check(home.settings), home.seen()
    tables = {"documents", "versions", "chunks", "tuples", "profiles", "users", "edges"}
    rows = {name: home.sql(f"SELECT t::text FROM {name} t ORDER BY 1") for name in sorted(tables)}
    target = take(home, tmp_path / "backup", with_keys=True)

    restored = new_home()
    ran = restored.cortex("restore", str(target))
    assert ran.code == 0, ran.document
    assert ran.document["warnings"][0].startswith("access is as of")
    assert (ran.document["points"], ran.document["mended"]) == (len(rows["chunks"]), [])
    stored = [path for path in (home.scratch.path / "objects").rglob("*") if path.is_file()]
    assert len(rows["versions"]) <= ran.document["objects"] <= len(stored)
    again = restored.cortex("restore", str(target))
    assert (again.code, again.document["error"]["code"]) == (5, "restore.not_empty")

    restored.up("postgres", "qdrant", "spicedb")
    there = LoadedHome(restored, restored.settings(), home.root)
    assert {name: there.sql(f"SELECT t::text FROM {name} t ORDER BY 1") for name in sorted(tables)} == rows
    after = check(there.settings)
    assert (after.differences, after.index_sha256) == ((), before.index_sha256)
    assert after.catalog_sha256 == before.catalog_sha256
    assert there.seen() == people
    there.load()  # finds everything unchanged, and may give new profiles
    assert check(there.settings).index_sha256 == before.index_sha256
    highest = "SELECT last_value FROM pg_sequences WHERE sequencename = 'profiles_profile_id_seq'"
    assert there.sql(highest) >= home.sql(highest)


def test_a_backup_under_load_is_one_moment(home: LoadedHome, tmp_path: Path) -> None:
    """While documents come and go, what is copied refers to nothing that is not copied."""

    def change() -> None:
        for number in range(4):
            (home.root / "moving.md").write_text(f"Edition {number}.")
            (home.root / f"passing-{number}.md").write_text(f"Passing by, number {number}.")
            (home.root / f"passing-{number - 1}.md").unlink(missing_ok=True)
            home.load()

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        taken = []
        while not changing.done():
            taken.append(take(home, tmp_path / f"backup-{len(taken)}"))
        changing.result()
    assert len(taken) > 1
    for folder in taken:
        manifest = read_manifest(folder)
        verify(folder, manifest)
        assert manifest.n_lost_objects == 0
        rows = {table.name: table.n_rows for table in manifest.dump.tables}
        assert manifest.n_objects <= rows["versions"] <= rows["documents"] + 1
        assert rows["chunks"] >= rows["versions"]


def test_secrets_stay_out_unless_asked_for(home: LoadedHome, tmp_path: Path) -> None:
    """No key and no password is in a backup; with keys, only what signs tokens is, for its owner alone."""
    passwords = [path.read_text().strip() for path in home.settings.keys_path.glob("*.secret")]
    assert passwords
    (home.settings.keys_path / "signing.pem").write_text("a key")
    try:
        plain, with_keys = take(home, tmp_path / "plain"), take(home, tmp_path / "keys", with_keys=True)
    finally:
        (home.settings.keys_path / "signing.pem").unlink()
    assert not (plain / "keys").exists()
    assert [path.name for path in (with_keys / "keys").iterdir() if path.suffix == ".pem"] == ["signing.pem"]
    assert (
        with_keys.stat().st_mode & 0o077,
        (with_keys / "keys" / "signing.pem").stat().st_mode & 0o077,
    ) == (0, 0)
    for path in [*plain.rglob("*"), *with_keys.rglob("*")]:
        if path.is_file():
            content = path.read_bytes()
            assert not any(password.encode() in content for password in passwords), path


def test_what_cannot_be_restored_is_refused(home: LoadedHome, tmp_path: Path) -> None:
    """A full home, a damaged file, a missing manifest, a folder that exists and a newer backup are each refused by name."""
    target = take(home, tmp_path / "backup")
    nothing = lambda what, n: None  # noqa: E731 - a progress that nobody reads
    with pytest.raises(InputError) as exists:
        take(home, target)
    with pytest.raises(Conflict) as full:
        restore(home.settings, target, nothing)
    damaged = shutil.copytree(target, tmp_path / "damaged")
    (damaged / "catalog" / "tuples.copy.gz").write_bytes(b"")
    with pytest.raises(Corrupt) as corrupt:
        restore(home.settings, damaged, nothing)
    newer = json.loads((damaged / "manifest.json").read_text()) | {"format": 99}
    (damaged / "manifest.json").write_text(json.dumps(newer))
    with pytest.raises(InputError) as unknown:
        restore(home.settings, damaged, nothing)
    with pytest.raises(InputError) as missing:
        restore(home.settings, tmp_path, nothing)
    codes = [caught.value.error_code for caught in (exists, full, corrupt, unknown, missing)]
    assert codes == [
        "backup.exists",
        "restore.not_empty",
        "backup.corrupt",
        "backup.format",
        "backup.missing",
    ]
