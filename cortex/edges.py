"""Edges: the links that authors wrote between documents, and the names by which a document can be linked to.

An edge says what was written and under which key its target is looked up; a document says under which keys it can be
found. Which document an edge leads to is never stored: it follows from the documents that are shown at the moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EdgeKind(StrEnum):
    """What an author wrote: a link, an embed (`![[…]]`), a link to a block (`^id`), to an id, a tag, a reference (URL)."""

    LINK = "link"
    EMBED = "embed"
    BLOCK = "block"
    ID = "id"
    TAG = "tag"
    REFERENCE = "reference"


class EdgeSpace(StrEnum):
    """In which space of names a target is looked up, within its source.

    `note`: by file name, path ending, title or alias. `path`: by its whole path. `id`: by an id of its own.
    `reference`: by a URL or citation key that a note says it is about. `tag`: it names no document. `attachment`: a file
    that goes with the text; pictures, sound and film are no documents.
    """

    NOTE = "note"
    PATH = "path"
    ID = "id"
    REFERENCE = "reference"
    TAG = "tag"
    ATTACHMENT = "attachment"


class EdgeState(StrEnum):
    """Where an edge leads: to one document, to none, to several that fit alike, or to no document by its nature (tags, URLs)."""

    RESOLVED = "resolved"
    DANGLING = "dangling"
    AMBIGUOUS = "ambiguous"
    EXTERNAL = "external"


# What may well name no document: not finding one is no fault.
OPEN_SPACES = frozenset({EdgeSpace.TAG, EdgeSpace.REFERENCE, EdgeSpace.ATTACHMENT})


@dataclass(frozen=True, slots=True)
class Edge:
    """One link as written: `target` and `anchor` (a heading, or `^` and a block id) are its own words.

    `byte_start` and `byte_end` delimit it, half-open, in the document's UTF-8 body. `key` is the target as the
    connector looks it up in `space`; a parser leaves it empty.
    """

    kind: EdgeKind
    space: EdgeSpace
    target: str
    byte_start: int
    byte_end: int
    anchor: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """One key under which a document is found. Of the documents that share it, the lowest `rank` wins.

    `byte_start` is where in the body the named thing begins (a heading with an id); 0 for the document itself.
    """

    space: EdgeSpace
    key: str
    rank: int = 0
    byte_start: int = 0


@dataclass(frozen=True, slots=True)
class ResolvedEdge:
    """An edge of a shown document, and where it leads now; external ids, empty where there is no one target."""

    edge: Edge
    external_id: str
    state: EdgeState
    target_external_id: str = ""
