"""Names of notes: the keys under which a vault's links find them, and the keys that links look up.

A note is found by its path without the extension, by every ending of it (`b/c`, `c` for `a/b/c.md`), through its
folder when it is the folder's `index` or `README`, by an alias, and by an Org title. Keys are compared in NFC, those of
notes without regard to case; paths of Markdown links keep their case, as web sites do.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import unquote

from cortex.edges import Edge, EdgeSpace, Name

NOTE_SUFFIXES = (".md", ".markdown", ".org")
# The lower, the better: the whole path, an ending of it, a folder by its index, by its README, then aliases and titles.
_WHOLE, _ENDING, _INDEX, _README, _INSIDE = range(5)
_FOLDER_NOTES = {"index": _INDEX, "readme": _README}
_MAX_ENDINGS = 20


def fold(text: str) -> str:
    """Write a name as notes are compared: composed, and without regard to case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def names_of(external_id: str, inside: tuple[Name, ...]) -> tuple[Name, ...]:
    """List the keys of one file: by its place, then those that the parser found inside."""
    found = [*_path_names(external_id), *_note_names(external_id), *map(_inside, inside)]
    best: dict[tuple[EdgeSpace, str], Name] = {}
    for name in found:
        known = best.setdefault((name.space, name.key), name)
        if name.rank < known.rank:
            best[name.space, name.key] = name
    return tuple(best.values())


def with_key(edge: Edge, external_id: str) -> Edge:
    """Fill in the key under which an edge's target is looked up from one file."""
    match edge.space:
        case EdgeSpace.PATH:
            key = _path_key(edge.target, external_id)
        case EdgeSpace.NOTE:
            key = fold(_without_suffix(edge.target.replace("\\", "/").strip("/")))
        case EdgeSpace.TAG | EdgeSpace.ATTACHMENT:
            key = fold(edge.target)
        case _:
            key = edge.target
    return replace(edge, key=key)


def _path_names(external_id: str) -> Iterator[Name]:
    path = unicodedata.normalize("NFC", external_id)
    stem = _without_suffix(path)
    yield Name(EdgeSpace.PATH, path, _WHOLE)
    if stem != path:
        yield Name(EdgeSpace.PATH, stem, _ENDING)
        folder, _, name = stem.rpartition("/")
        if (rank := _FOLDER_NOTES.get(name.lower())) is not None:
            yield Name(EdgeSpace.PATH, folder, rank)


def _note_names(external_id: str) -> Iterator[Name]:
    stem = fold(_without_suffix(external_id))
    yield from _endings(stem, _ENDING)
    folder, _, name = stem.rpartition("/")
    if folder and (rank := _FOLDER_NOTES.get(name)) is not None and stem != fold(external_id):
        yield from _endings(folder, rank)


def _endings(path: str, rank: int) -> Iterator[Name]:
    yield Name(EdgeSpace.NOTE, path, _WHOLE if rank == _ENDING else rank)
    parts = path.split("/")
    for first in range(max(1, len(parts) - _MAX_ENDINGS), len(parts)):
        yield Name(EdgeSpace.NOTE, "/".join(parts[first:]), rank)


def _inside(name: Name) -> Name:
    if name.space is EdgeSpace.NOTE:
        return replace(name, key=fold(name.key), rank=_INSIDE + name.rank)
    return name


def _path_key(target: str, external_id: str) -> str:
    """Resolve a relative path from a file's folder, one that begins with a slash from the root."""
    path = unquote(target)
    below = posixpath.dirname(external_id)
    joined = path.lstrip("/") if path.startswith("/") else posixpath.join(below, path)
    settled = posixpath.normpath(joined)
    return unicodedata.normalize("NFC", "" if settled == "." else settled)


def _without_suffix(path: str) -> str:
    stem, suffix = posixpath.splitext(path)
    return stem if suffix.lower() in NOTE_SUFFIXES else path
