"""Documents and what surrounds them: items as fetched, grants, blocks of parsed text and anchors into the source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from cortex.crossing import crossing
from cortex.edges import Edge, Name
from cortex.ids import sha256_hex


class GrantKind(StrEnum):
    """Whom a grant names: one user, the members of a group (nested ones too), or everyone in the tenant."""

    USER = "user"
    GROUP = "group"
    EVERYONE = "everyone"


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One subject of an access list. `name` is the source's own id of it, empty for everyone."""

    kind: GrantKind
    name: str = ""


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may view a document at its source.

    A viewer who is also denied may not view. `is_known=False` means that the source could not say: nobody may view,
    and the document is reported as dark to the operator. An unknown list never overwrites a known one.
    """

    viewers: frozenset[Grant] = frozenset()
    denied: frozenset[Grant] = frozenset()
    is_known: bool = True


def acl_sha256(acl: Acl) -> str:
    """Hash an access list: equal lists give equal hashes, in any order of their grants."""
    grants = [[[grant.kind, grant.name] for grant in sorted(side)] for side in (acl.viewers, acl.denied)]
    return sha256_hex(json.dumps([acl.is_known, *grants]).encode())


NOBODY = Acl(is_known=False)
EVERYONE = Acl(viewers=frozenset({Grant(GrantKind.EVERYONE)}))


@dataclass(frozen=True, slots=True)
class Membership:
    """One edge of the group graph: `member` (a user or a group) belongs to group `group_name`."""

    group_name: str
    member: Grant


@dataclass(frozen=True, slots=True)
class Item:
    """One thing listed by a connector's fetch, before its content is read.

    `external_id` is the source's stable id of it (for files: the POSIX path relative to the root). Content comes
    from `path` or from `content`, of which at most one is set; when neither is, from the connector (`ContentReader`).
    In `meta`, `fingerprint` states the item's version without its content, `name` the file name that tells its format.
    """

    external_id: str
    media_type: str
    path: str | None = None
    content: bytes | None = None
    modified_at: datetime | None = None
    size_bytes: int = 0
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """A normalized document: identity, provenance and metadata; its text lives in blocks and chunks.

    `edges` are the links in it, in the order of its text; `names` are the keys under which other documents link to it.
    """

    document_id: str
    tenant_id: str
    source_id: str
    external_id: str
    source_type: str
    title: str
    media_type: str
    content_sha256: str
    permalink: str
    author: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    language: str = ""
    collection: str = "default"
    meta: Mapping[str, str] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    names: tuple[Name, ...] = ()


class BlockKind(StrEnum):
    """What a block of parsed text is; chunking depends on it."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE_ROW = "table_row"
    CODE = "code"
    TURN = "turn"


@crossing
@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a text sits in its source, in the source's own units.

    `kind` is `line` (1-based), `page` (1-based), `slide` (1-based), `row` (1-based, in sheet `label`), `second`
    (speech), `message` (1-based, in its conversation) or `none`. `start` and `end` are inclusive. `fragment` renders
    it for a URL: `L10-L20`, `page=3`, `slide=2`, `Q1!5-9`, `t=63`. A message's `label` is the last part of its own
    permalink; see `source_link`.
    """

    kind: str = "none"
    start: int = 0
    end: int = 0
    label: str = ""

    @property
    def fragment(self) -> str:
        """Render the anchor as the fragment of a permalink; empty when there is none."""
        match self.kind:
            case "line":
                return f"L{self.start}-L{self.end}" if self.end > self.start else f"L{self.start}"
            case "page" | "slide":
                return f"{self.kind}={self.start}"
            case "row":
                return (
                    f"{self.label}!{self.start}-{self.end}"
                    if self.end > self.start
                    else f"{self.label}!{self.start}"
                )
            case "second":
                return f"t={self.start}"
            case "message":
                return self.label
            case _:
                return ""

    @property
    def scope(self) -> tuple[str, str]:
        """What anchors must share for one to span them: their kind and sheet. A message's label is its own alone."""
        return (self.kind, "" if self.kind == "message" else self.label)


def source_link(permalink: str, kind: str, fragment: str) -> str:
    """Join a document's permalink and an anchor's fragment: a message replaces the last part of the path."""
    if not fragment or "#" in permalink:
        return permalink
    if kind != "message":
        return f"{permalink}#{fragment}"
    path, mark, query = permalink.partition("?")
    return f"{path.rpartition('/')[0]}/{fragment}{mark}{query}"


@dataclass(frozen=True, slots=True)
class Block:
    """A run of a document's body text with its structure.

    `byte_start` and `byte_end` delimit it, half-open, in the UTF-8 body that parse returns; blocks are in order and
    do not overlap. `heading_path` is the chain of headings above it; `level` is 1-6 for headings, else 0; `speaker`
    is set for turns; `symbol` names the function or class of a code block.
    """

    kind: BlockKind
    text: str
    byte_start: int
    byte_end: int
    anchor: Anchor = Anchor()
    heading_path: tuple[str, ...] = ()
    level: int = 0
    speaker: str = ""
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """What parse makes of one item: the whole body, its blocks in order, and metadata found inside.

    `edges` and `names` are the links and the ids or aliases found inside, their keys still as written.
    """

    body: str
    blocks: tuple[Block, ...]
    title: str = ""
    author: str = ""
    language: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    meta: Mapping[str, str] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    names: tuple[Name, ...] = ()
