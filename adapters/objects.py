"""Raw payloads by SHA-256, in a folder or a bucket: port ObjectStore over obstore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from obstore import exceptions
from obstore.store import LocalStore, from_url

from cortex.errors import Corrupt, NotFound, Unavailable
from cortex.ids import sha256_hex
from cortex.settings import Settings

# A load stores a content before the catalog hears of it, and an interrupted load may go on later.
LITTER_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One stored object: its name, its size in bytes, and when it was written."""

    sha256: str
    n_bytes: int
    written_at: datetime


class ObstoreObjects:
    """An ObjectStore. Keys are `ab/cd/<sha256>`: no folder grows beyond what a file system lists quickly."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @classmethod
    def from_settings(cls, settings: Settings) -> ObstoreObjects:
        """Open `CORTEX_OBJECTS_URL` (`file:///…`, `s3://bucket/prefix`), or the home's `objects` folder."""
        if not settings.objects_url:
            return cls(LocalStore(settings.home / "objects", mkdir=True))
        if settings.objects_url.startswith("file://"):
            return cls(LocalStore.from_url(settings.objects_url, mkdir=True))
        return cls(from_url(settings.objects_url))

    @classmethod
    def in_folder(cls, folder: Path) -> ObstoreObjects:
        """Open a folder of objects, made if it is not there."""
        return cls(LocalStore(folder, mkdir=True))

    def put(self, content: bytes) -> str:
        """Store bytes once; returns their SHA-256 hex."""
        sha256 = sha256_hex(content)
        # Written aside, then renamed; the same name means the same bytes.
        with _translated():
            try:
                self._store.put(_key(sha256), content, mode="create")
            except exceptions.AlreadyExistsError:
                # Who finds litter and relies on it makes it young again, or it would be collected under their hands.
                if self.is_older(sha256, LITTER_AFTER / 2):
                    self._store.put(_key(sha256), content, mode="overwrite")
        return sha256

    def get(self, sha256: str) -> bytes:
        """Load bytes and verify their hash; raises NotFound or Corrupt."""
        with _translated():
            content = bytes(self._store.get(_key(sha256)).bytes())
        if sha256_hex(content) != sha256:
            raise Corrupt(
                f"object {sha256[:12]} does not hold the bytes of its name",
                code="object.corrupt",
                hint="delete it and ingest its source again",
            )
        return content

    def entries(self) -> Iterator[StoredObject]:
        """Stream what is stored, in no order."""
        with _translated():
            for page in self._store.list():
                for meta in page:
                    name = meta["path"].rpartition("/")[2]
                    if meta["path"] == _key(name):
                        yield StoredObject(name, meta["size"], meta["last_modified"])

    def is_there(self, sha256: str) -> bool:
        """Say whether an object is stored, without reading it."""
        try:
            with _translated():
                self._store.head(_key(sha256))
        except NotFound:
            return False
        return True

    def is_older(self, sha256: str, age: timedelta) -> bool:
        """Say whether an object was written longer ago than that; one that is not stored is as old as can be."""
        try:
            with _translated():
                written_at: datetime = self._store.head(_key(sha256))["last_modified"]
        except NotFound:
            return True
        return written_at < datetime.now(UTC) - age

    def delete(self, sha256: str) -> None:
        """Delete an object; missing ones are fine."""
        with _translated(), suppress(FileNotFoundError):
            self._store.delete(_key(sha256))


def _key(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}"


@contextmanager
def _translated() -> Iterator[None]:
    """Turn obstore's errors into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("there is no such object", code="object.not_found") from error
    except (exceptions.BaseError, OSError) as error:
        raise Unavailable(
            f"the object store does not answer: {type(error).__name__}",
            code="objects.unavailable",
            hint="check the disk, or CORTEX_OBJECTS_URL and its credentials",
        ) from error
