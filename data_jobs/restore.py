"""Restores a backup into an empty home whose Postgres and index run; `cortex restore` starts them and runs this."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

import click

from adapters.catalog.audit import record_for_all
from adapters.catalog.dump import load, require_empty
from adapters.objects import ObstoreObjects
from adapters.qdrant_reader import QdrantIndexReader
from adapters.qdrant_writer import QdrantIndexWriter
from cortex.console import command, json_option, write_document
from cortex.errors import Conflict, Corrupt
from cortex.settings import Settings, settings
from data_jobs.actor import operator
from data_jobs.backup_files import Manifest, read_manifest, verify
from data_jobs.consistency.check import mend_points
from data_jobs.consistency.report import Difference
from data_jobs.index_files import read_points
from data_jobs.progress import counting

_POINTS_PER_CALL = 256
Progress = Callable[[str, int], None]


def restore(settings: Settings, folder: Path, on_progress: Progress) -> tuple[Difference, ...]:
    """Fill an empty home; the catalog's transaction comes after objects and points, so that half a restore shows nothing.

    Points that changed while the backup was taken are mended by the catalog. Raises Conflict when the home is not empty.
    """
    manifest = read_manifest(folder)
    verify(folder, manifest)
    require_empty(settings.postgres_url)
    with ExitStack() as stack:
        index = QdrantIndexReader.from_settings(settings)
        stack.callback(index.close)
        if index.collections():
            raise Conflict(
                "the index is not empty", code="restore.not_empty", hint="restore into a new CORTEX_HOME"
            )
        _restore_objects(settings, folder, manifest, on_progress)
        _restore_points(settings, folder, manifest, on_progress)
        load(settings.postgres_url, folder / "catalog", manifest.dump)
    record_for_all(
        settings.postgres_url, operator(), "home.restore", {"taken_at": manifest.taken_at.isoformat()}
    )
    if manifest.has_keys:
        _restore_keys(settings, folder / "keys")
    return mend_points(settings)


def _restore_objects(settings: Settings, folder: Path, manifest: Manifest, on_progress: Progress) -> None:
    """Copy the objects, each verified by its hash."""
    source, target = ObstoreObjects.in_folder(folder / "objects"), ObstoreObjects.from_settings(settings)
    n = 0
    for entry in source.entries():
        target.put(source.get(entry.sha256))
        n += 1
        on_progress("objects", n)
    if n != manifest.n_objects:
        raise Corrupt(f"the backup has {n} objects, not {manifest.n_objects}", code="backup.corrupt")


def _restore_points(settings: Settings, folder: Path, manifest: Manifest, on_progress: Progress) -> None:
    """Fill the collections, the one that searches read last, so that the alias ends at it."""
    writer = QdrantIndexWriter.from_settings(settings)
    n = 0
    try:
        for name in sorted(manifest.points, key=lambda name: (name == manifest.serving, name)):
            points = read_points(folder / "index" / f"{name}.jsonl.gz")
            first = next(points, None)
            if first is None:
                continue
            writer.ensure(first.embedding_model_version, len(first.vectors.dense))
            points = chain([first], points)
            while batch := list(islice(points, _POINTS_PER_CALL)):
                writer.upsert(batch)
                n += len(batch)
                on_progress("points", n)
    finally:
        writer.close()


def _restore_keys(settings: Settings, folder: Path) -> None:
    settings.keys_path.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in folder.iterdir():
        target = settings.home if path.name == "settings.env" else settings.keys_path
        shutil.copyfile(path, target / path.name)
        (target / path.name).chmod(0o600)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--verify", "only_verifies", is_flag=True, help="Read the manifest and check the files alone.")
@json_option
@command
def main(folder: Path, only_verifies: bool, as_json: bool) -> None:
    """Restore, or verify, and print what the backup holds and what was mended."""
    manifest = read_manifest(folder)
    mended: tuple[Difference, ...] = ()
    if only_verifies:
        verify(folder, manifest)
    else:
        with counting("restore.progress", "restoring", as_json) as on_progress:
            mended = restore(settings(), folder, on_progress)
    write_document(
        {
            "backup": folder,
            "taken_at": manifest.taken_at,
            "newest_access_change_at": manifest.dump.newest_access_change_at,
            "cortex_version": manifest.cortex_version,
            "rows": {table.name: table.n_rows for table in manifest.dump.tables},
            "objects": manifest.n_objects,
            "points": sum(manifest.points.values()),
            "has_keys": manifest.has_keys,
            "mended": mended,
        }
    )


if __name__ == "__main__":
    main()
