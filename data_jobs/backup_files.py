"""A backup's files: `manifest.json`, `catalog/*.copy.gz`, `objects/ab/cd/<sha256>`, `index/<collection>.jsonl.gz`, `keys/`.

The manifest names every file but objects with its SHA-256; an object's name is its hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import file_digest
from pathlib import Path
from typing import Any

from adapters.catalog.dump import Dump, DumpedTable
from cortex.console import plain
from cortex.errors import Corrupt, InputError

FORMAT = 1
_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds. It is written last: without it a folder is no backup."""

    format: int
    cortex_version: str
    taken_at: datetime
    dump: Dump
    n_objects: int
    n_object_bytes: int
    n_lost_objects: int  # the home lacked them already
    serving: str  # the collection that searches read
    points: Mapping[str, int]  # by collection
    has_keys: bool
    files: Mapping[str, str]  # path to SHA-256

    def write(self, folder: Path) -> None:
        """Write the manifest."""
        (folder / _NAME).write_text(json.dumps(asdict(self), default=plain, indent=2))


def read_manifest(folder: Path) -> Manifest:
    """Read a backup's manifest; raises InputError where there is none, Corrupt when it is damaged."""
    try:
        raw: dict[str, Any] = json.loads((folder / _NAME).read_text())
    except OSError as error:
        raise InputError(f"{folder} is no backup: it has no {_NAME}", code="backup.missing") from error
    except ValueError as error:
        raise Corrupt(f"{folder / _NAME} is damaged", code="backup.corrupt") from error
    if raw.get("format") != FORMAT:
        raise InputError(f"this backup has format {raw.get('format')}, not {FORMAT}", code="backup.format")
    try:
        told = raw.pop("dump")
        changed_at = told.pop("newest_access_change_at")
        dump = Dump(
            tuple(DumpedTable(one["name"], tuple(one["columns"]), one["n_rows"]) for one in told["tables"]),
            told["sequences"],
            tuple(told["migrations"]),
            datetime.fromisoformat(changed_at) if changed_at else None,
        )
        return Manifest(**{**raw, "taken_at": datetime.fromisoformat(raw["taken_at"])}, dump=dump)
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"{folder / _NAME} is damaged", code="backup.corrupt") from error


def verify(folder: Path, manifest: Manifest) -> None:
    """Raise Corrupt unless every file but objects is there with the hash that the manifest gives."""
    for name, sha256 in manifest.files.items():
        path = folder / name
        if not path.is_file() or file_sha256(path) != sha256:
            raise Corrupt(f"{name} of the backup is missing or damaged", code="backup.corrupt")


def file_sha256(path: Path) -> str:
    """Hash a file of any size."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
