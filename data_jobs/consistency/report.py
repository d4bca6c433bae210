"""Kinds of difference between the stores, and the count of what was found and mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from cortex.errors import Corrupt

_EXAMPLES = 10


class Kind(StrEnum):
    """One kind of difference; the value is its stable code."""

    POINT_MISSING = "point.missing"
    POINT_ORPHAN = "point.orphan"
    POINT_PROFILE = "point.profile"
    POINT_PAYLOAD = "point.payload"
    DOCUMENT_MODEL = "document.other_model"
    OBJECT_MISSING = "object.missing"
    OBJECT_CORRUPT = "object.corrupt"
    OBJECT_ORPHAN = "object.orphan"
    EDGE_MISSING = "edge.missing"
    EDGE_FOREIGN = "edge.foreign"
    VERSION_UNUSED = "version.unused"
    ACCESS_MISSING = "access.missing"
    ACCESS_FOREIGN = "access.foreign"
    PROFILE_ALTERED = "profile.altered"
    PROFILE_UNKNOWN = "profile.unknown"
    TUPLE_MISSING = "tuple.missing"
    TUPLE_STALE = "tuple.stale"
    OUTBOX_PARKED = "outbox.parked"


SENTENCES = {
    Kind.POINT_MISSING: "chunks that are shown, but have no point in the index",
    Kind.POINT_ORPHAN: "points of the index that belong to no chunk",
    Kind.POINT_PROFILE: "points that carry another access profile than their document",
    Kind.POINT_PAYLOAD: "points that say something else of their document than the catalog",
    Kind.DOCUMENT_MODEL: "documents embedded by another model than the one searched: not found until loaded again",
    Kind.OBJECT_MISSING: "contents of documents that the object store lacks",
    Kind.OBJECT_CORRUPT: "objects that do not hold the bytes of their name",
    Kind.OBJECT_ORPHAN: "objects that no document refers to any more; nothing reads them",
    Kind.EDGE_MISSING: "documents of which links, or names by which others link to them, are lost",
    Kind.EDGE_FOREIGN: "documents whose links are kept under another source, and lead to the wrong places",
    Kind.VERSION_UNUSED: "documents with a version that is neither shown nor being loaded",
    Kind.ACCESS_MISSING: "documents whose access profile is not among the permission tuples",
    Kind.ACCESS_FOREIGN: "documents with a permission tuple of another profile than theirs, or that are gone",
    Kind.PROFILE_ALTERED: "access profiles whose grants are not those they were made for",
    Kind.PROFILE_UNKNOWN: "grants of access profiles that the catalog does not know",
    Kind.TUPLE_MISSING: "permission tuples of the catalog that SpiceDB lacks",
    Kind.TUPLE_STALE: "permission tuples of SpiceDB that the catalog does not have",
    Kind.OUTBOX_PARKED: "queued changes that were given up",
}
# They cost disk and nothing else.
HARMLESS = frozenset({Kind.OBJECT_ORPHAN})


@dataclass(frozen=True, slots=True)
class Difference:
    """One kind of difference: how many, how many of them were mended, or need their source to be loaded again."""

    code: Kind
    meaning: str
    n_found: int
    n_mended: int
    n_to_reload: int
    is_harmless: bool
    examples: tuple[str, ...]

    @property
    def n_left(self) -> int:
        """How many are as they were."""
        return self.n_found - self.n_mended - self.n_to_reload


@dataclass(frozen=True, slots=True)
class Report:
    """What a comparison found. `in_flight` are changes that were under way and are no differences.

    The hashes depend on content alone, not on order or on how a home numbers its access profiles: two homes that were
    loaded with the same sources have the same. That of vectors is empty when they were not read.
    """

    differences: tuple[Difference, ...]
    counted: dict[str, int]
    in_flight: int
    index_sha256: str
    vectors_sha256: str
    catalog_sha256: str
    seconds: float

    @property
    def exit_code(self) -> int:
        """0, or that of Corrupt when a difference is left that matters."""
        is_left = any(one.n_found > one.n_mended and not one.is_harmless for one in self.differences)
        return Corrupt.exit_code if is_left else 0


@dataclass(slots=True)
class _Tally:
    n_found: int = 0
    n_mended: int = 0
    n_to_reload: int = 0
    examples: list[str] = field(default_factory=list)


class Ledger:
    """Counts differences by kind, keeps a few of each as examples, and tells how far the comparison is."""

    def __init__(self, on_progress: Callable[[str, int], None]) -> None:
        self._tallies: dict[Kind, _Tally] = {}
        self._on_progress = on_progress
        self.counted: dict[str, int] = {}
        self.in_flight = 0

    def looked_at(self, what: str, n: int = 1) -> None:
        """Count something compared."""
        self.counted[what] = self.counted.get(what, 0) + n
        self._on_progress(what, self.counted[what])

    def found(self, kind: Kind, name: str, n: int = 1) -> None:
        """Note a difference, or several of one name; `name` is an id, never content."""
        tally = self._tallies.setdefault(kind, _Tally())
        tally.n_found += n
        if len(tally.examples) < _EXAMPLES:
            tally.examples.append(name)

    def mended(self, kind: Kind, n: int = 1) -> None:
        """Note that differences are no more."""
        self._tallies.setdefault(kind, _Tally()).n_mended += n

    def to_reload(self, kind: Kind, n: int = 1) -> None:
        """Note that the next load of the source mends what cannot be mended from here."""
        self._tallies.setdefault(kind, _Tally()).n_to_reload += n

    def differences(self) -> tuple[Difference, ...]:
        """List what was found, by kind."""
        return tuple(
            Difference(
                kind,
                SENTENCES[kind],
                tally.n_found,
                tally.n_mended,
                tally.n_to_reload,
                kind in HARMLESS,
                tuple(tally.examples),
            )
            for kind, tally in sorted(self._tallies.items())
        )
