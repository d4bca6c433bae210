"""Backs a home up while it runs: the catalog in one snapshot, the objects that it refers to, and the index."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from adapters.catalog.dump import dumping
from adapters.objects import ObstoreObjects
from adapters.qdrant_reader import QdrantIndexReader
from cortex import __version__
from cortex.errors import Corrupt, InputError, NotFound
from cortex.settings import Settings
from data_jobs.backup_files import FORMAT, Manifest, file_sha256
from data_jobs.index_files import write_points
from data_jobs.parts import require

Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class _Objects:
    n: int
    n_bytes: int
    n_lost: int


def backup(settings: Settings, target: Path, *, with_keys: bool, on_progress: Progress) -> Manifest:
    """Write a backup into a new folder; it appears whole or not at all. Secrets stay out unless asked for.

    Everything is as of the catalog's snapshot, but for points that changed after it: a restore mends those. Raises
    InputError when the folder exists or cannot be written.
    """
    require(settings.postgres_url, "postgres")
    require(settings.qdrant_url, "qdrant")
    if target.exists():
        raise InputError(f"{target} exists", code="backup.exists", hint="name a new folder")
    draft = target.with_name(f"{target.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        for folder in ("catalog", "objects", "index"):
            (draft / folder).mkdir(parents=True, mode=0o700)
        draft.chmod(0o700)
        manifest = _fill(settings, draft, with_keys, on_progress)
        manifest.write(draft)
        draft.rename(target)
    except OSError as error:
        raise InputError(
            f"the backup cannot be written: {error.strerror}", code="backup.unwritable"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return manifest


def _fill(settings: Settings, draft: Path, with_keys: bool, on_progress: Progress) -> Manifest:
    taken_at = datetime.now(UTC)
    with dumping(settings.postgres_url, draft / "catalog") as (dump, contents):
        on_progress("rows", sum(table.n_rows for table in dump.tables))
        objects = _copy_objects(settings, contents, draft / "objects", on_progress)
    serving, points = _copy_index(settings, draft / "index", on_progress)
    if with_keys:
        _copy_keys(settings, draft / "keys")
    return Manifest(
        format=FORMAT,
        cortex_version=__version__,
        taken_at=taken_at,
        dump=dump,
        n_objects=objects.n,
        n_object_bytes=objects.n_bytes,
        n_lost_objects=objects.n_lost,
        serving=serving,
        points=points,
        has_keys=with_keys,
        files={
            path.relative_to(draft).as_posix(): file_sha256(path)
            for folder in ("catalog", "index", "keys")
            for path in sorted((draft / folder).glob("*"))
        },
    )


def _copy_objects(
    settings: Settings, contents: Iterable[str], folder: Path, on_progress: Progress
) -> _Objects:
    """Copy the objects of the snapshot, each verified by its hash; lost or damaged ones are counted."""
    store, target = ObstoreObjects.from_settings(settings), ObstoreObjects.in_folder(folder)
    n = n_bytes = n_lost = 0
    for sha256 in contents:
        try:
            content = store.get(sha256)
        except (NotFound, Corrupt):
            n_lost += 1
            continue
        target.put(content)
        n, n_bytes = n + 1, n_bytes + len(content)
        on_progress("objects", n)
    return _Objects(n, n_bytes, n_lost)


def _copy_index(settings: Settings, folder: Path, on_progress: Progress) -> tuple[str, dict[str, int]]:
    index = QdrantIndexReader.from_settings(settings)
    try:
        points = {}
        for name in index.collections():
            points[name] = write_points(folder / f"{name}.jsonl.gz", index.whole_points(name))
            on_progress("points", sum(points.values()))
        return index.serving(), points
    finally:
        index.close()


def _copy_keys(settings: Settings, folder: Path) -> None:
    """Copy the keys that sign tokens, and the settings file; engines' passwords belong to one home and are made anew."""
    folder.mkdir(mode=0o700)
    kept = [path for path in settings.keys_path.glob("*") if path.is_file() and path.suffix != ".secret"]
    for path in (*kept, settings.home / "settings.env"):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
            (folder / path.name).chmod(0o600)
