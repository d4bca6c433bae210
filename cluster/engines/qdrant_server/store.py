"""All collections of one folder, their aliases, and the thread that maintains them."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from cluster.engines.qdrant_server.collection import Collection, write_json
from cluster.engines.qdrant_server.fields import Fields
from cluster.engines.qdrant_server.problems import AlreadyExists, BadRequest, NotFound, Unsupported

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_TURN_S = 0.25


class AlreadyOwned(Exception):
    """Another process serves the folder."""


class Store:
    """The owner of a folder of collections."""

    def __init__(self, path: Path, graph_from: int) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._lock_file = _own(path)
        self._path = path
        self._graph_from = graph_from
        self._changes = threading.Lock()  # of the set of collections and aliases
        self._collections: dict[str, Collection] = {}
        self._aliases: dict[str, str] = {}
        self._stop = threading.Event()
        self._open_all()
        self._maintenance = threading.Thread(target=self._maintain, name="maintenance", daemon=True)
        self._maintenance.start()

    def _open_all(self) -> None:
        for folder in sorted((self._path / "collections").glob("*")):
            if (folder / "meta.json").exists():
                self._collections[folder.name] = Collection(folder, self._graph_from)
            else:
                shutil.rmtree(folder)  # a creation or deletion that was never finished
        aliases = self._path / "aliases.json"
        self._aliases = json.loads(aliases.read_text()) if aliases.exists() else {}

    def names(self) -> list[str]:
        """List the collections."""
        return sorted(self._collections)

    def aliases(self) -> dict[str, str]:
        """Map alias to collection."""
        return dict(self._aliases)

    def exists(self, name: str) -> bool:
        """Say whether a collection or alias has this name."""
        return self._aliases.get(name, name) in self._collections

    def get(self, name: str) -> Collection:
        """Find a collection by name or alias."""
        try:
            return self._collections[self._aliases.get(name, name)]
        except KeyError:
            raise NotFound(f"Not found: Collection `{name[:60]}` doesn't exist!") from None

    def create(self, name: str, body: dict[str, Any]) -> None:
        """Create a collection."""
        _check_name(name)
        with self._changes:
            if name in self._collections or name in self._aliases:
                raise AlreadyExists(f"Wrong input: Collection `{name}` already exists!")
            folder = self._path / "collections" / name
            self._collections[name] = Collection.create(folder, body, self._graph_from)

    def delete(self, name: str) -> bool:
        """Delete a collection with its aliases; False when there was none."""
        with self._changes:
            collection = self._collections.pop(name, None)
            if collection is None:
                return False
            self._set_aliases({alias: to for alias, to in self._aliases.items() if to != name})
            (collection.folder / "meta.json").unlink()  # from here on a restart finishes the deletion
            collection.close()
            shutil.rmtree(collection.folder, ignore_errors=True)
            return True

    def change_aliases(self, actions: list[Any]) -> None:
        """Apply alias actions in order, all or none."""
        with self._changes:
            aliases = dict(self._aliases)
            for action in actions:
                self._change_alias(aliases, action)
            self._set_aliases(aliases)

    def _change_alias(self, aliases: dict[str, str], action: Any) -> None:
        with Fields(action, "action") as fields:
            if "create_alias" in fields:
                with Fields(fields.take("create_alias"), "create_alias") as create:
                    alias, name = create.need("alias_name", str), create.need("collection_name", str)
                _check_name(alias)
                if name not in self._collections:
                    raise NotFound(f"Not found: Collection `{name[:60]}` doesn't exist!")
                if alias in self._collections:
                    raise AlreadyExists(f"Wrong input: Collection `{alias}` already exists!")
                aliases[alias] = name
            elif "delete_alias" in fields:
                with Fields(fields.take("delete_alias"), "delete_alias") as delete:
                    _need_alias(aliases, delete.need("alias_name", str), is_removed=True)
            elif "rename_alias" in fields:
                with Fields(fields.take("rename_alias"), "rename_alias") as rename:
                    old, new = rename.need("old_alias_name", str), rename.need("new_alias_name", str)
                _check_name(new)
                aliases[new] = _need_alias(aliases, old, is_removed=True)
            else:
                raise Unsupported("not supported here: this alias action")

    def _set_aliases(self, aliases: dict[str, str]) -> None:
        if aliases != self._aliases:
            write_json(self._path / "aliases.json", aliases)
            self._aliases = aliases

    def close(self) -> None:
        """Stop maintenance, sync and close every shard."""
        self._stop.set()
        self._maintenance.join()
        for collection in self._collections.values():
            collection.close()
        self._lock_file.close()

    def _maintain(self) -> None:
        while not self._stop.wait(_TURN_S):
            for collection in list(self._collections.values()):
                try:
                    collection.flush_if_due()
                    if collection.is_optimize_due():
                        collection.optimize(self._stop)
                except NotFound:
                    continue  # deleted meanwhile
                except Exception as error:  # noqa: BLE001 - the outermost loop: one collection must not end it
                    collection.put_off(f"{type(error).__name__}: {error}")
                    print(f"maintenance of {collection.folder.name}: {error}", file=sys.stderr, flush=True)


def _own(path: Path) -> TextIO:
    stream = (path / ".lock").open("w")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise AlreadyOwned(f"another process serves {path}") from None
    return stream


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadRequest("a name holds 1 to 200 letters, digits, `.`, `_` or `-`, and starts with no dot")


def _need_alias(aliases: dict[str, str], alias: str, *, is_removed: bool) -> str:
    if alias not in aliases:
        raise NotFound(f"Not found: Alias `{alias[:60]}` doesn't exist!")
    return aliases.pop(alias) if is_removed else aliases[alias]
