"""What every IngestCatalog promises about the links between documents, on the twin and on Postgres."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex.documents import EVERYONE
from cortex.edges import Edge, EdgeKind, EdgeSpace, EdgeState, Name, ResolvedEdge
from cortex.ports.ingest import DocumentWrite
from tests.contracts.catalog_words import source, version
from tests.contracts.conftest import Catalog
from tests.twins.edges import resolve

SOURCE_ID = source().source_id


def link(key: str, space: EdgeSpace = EdgeSpace.NOTE, kind: EdgeKind = EdgeKind.LINK) -> Edge:
    return Edge(kind, space, f"As written: {key}", 3, 9, "heading", key)


def note(
    path: str, *edges: Edge, names: tuple[Name, ...] | None = None, content: str = "text"
) -> DocumentWrite:
    """A version with links, found by its file name unless other names are given."""
    write = version(path, content)
    by_name = Name(EdgeSpace.NOTE, path.rpartition("/")[2])
    document = replace(write.document, edges=edges, names=(by_name,) if names is None else names)
    return replace(write, document=document)


def leads(catalog: Catalog) -> list[tuple[str, str, str]]:
    """Each edge as (document, state, target)."""
    listed = catalog.ingest.list_edges(SOURCE_ID)
    return [(edge.external_id, str(edge.state), edge.target_external_id) for edge in listed]


def test_edges_are_published_with_their_version(catalog: Catalog) -> None:
    """A staged version's links are not there before it is published; then they replace those of the version before."""
    write = note("a", link("b"), link("c"))
    catalog.ingest.stage_document(write)
    assert leads(catalog) == []
    catalog.publish(write, EVERYONE)
    assert catalog.ingest.list_edges(SOURCE_ID) == [
        ResolvedEdge(link("b"), "a", EdgeState.DANGLING),
        ResolvedEdge(link("c"), "a", EdgeState.DANGLING),
    ]
    newer = note("a", link("d"), content="newer")
    catalog.ingest.stage_document(newer)
    assert [edge.edge.key for edge in catalog.ingest.list_edges(SOURCE_ID)] == ["b", "c"]
    catalog.ingest.publish_document(newer.document.document_id, newer.document.content_sha256)
    assert [edge.edge.key for edge in catalog.ingest.list_edges(SOURCE_ID)] == ["d"]


def test_a_link_follows_its_target(catalog: Catalog) -> None:
    """A link resolves when its target comes, follows when it moves, and dangles when it goes."""
    catalog.publish(note("a", link("b")), EVERYONE)
    assert leads(catalog) == [("a", "dangling", "")]
    target, moved = note("b"), note("folder/b")
    catalog.publish(target, EVERYONE)
    assert leads(catalog) == [("a", "resolved", "b")]
    catalog.ingest.tombstone(target.document.document_id)
    catalog.publish(moved, EVERYONE)
    assert leads(catalog) == [("a", "resolved", "folder/b")]
    catalog.ingest.tombstone(moved.document.document_id)
    assert leads(catalog) == [("a", "dangling", "")]


def test_a_new_version_may_give_up_a_name(catalog: Catalog) -> None:
    """A link by an alias dangles once the alias is gone from the shown version."""
    alias = (Name(EdgeSpace.NOTE, "alias", 2),)
    catalog.publish(note("a", link("alias")), EVERYONE)
    catalog.publish(note("b", names=alias), EVERYONE)
    assert leads(catalog) == [("a", "resolved", "b")]
    catalog.publish(note("b", names=(), content="newer"))
    assert leads(catalog) == [("a", "dangling", "")]


def test_a_tombstone_takes_the_edges_along(catalog: Catalog) -> None:
    """The links of a document that went away are gone, staged ones too."""
    write = note("a", link("b"))
    catalog.publish(write, EVERYONE)
    catalog.ingest.stage_document(note("a", link("c"), content="newer"))
    catalog.ingest.tombstone(write.document.document_id)
    assert leads(catalog) == []
    assert catalog.ingest.count_edges(SOURCE_ID) == {}


def test_rank_then_the_own_folder_then_the_shortest_path_decide(catalog: Catalog) -> None:
    """Of several targets the best rank wins, then the link's own folder, then the fewest folders; else none does."""
    for path in ("n", "x/n", "y/z/n", "y/w/n"):
        catalog.publish(note(path, names=(Name(EdgeSpace.NOTE, "n", 1),)), EVERYONE)
    for path in ("x/from", "y/from", "top"):
        catalog.publish(note(path, link("n")), EVERYONE)
    assert leads(catalog) == [
        ("top", "resolved", "n"),
        ("x/from", "resolved", "x/n"),
        ("y/from", "resolved", "n"),
    ]
    catalog.ingest.tombstone(note("n").document.document_id)
    catalog.ingest.tombstone(note("x/n").document.document_id)
    assert {state for _, state, _ in leads(catalog)} == {"ambiguous"}
    catalog.publish(note("q/r/s", names=(Name(EdgeSpace.NOTE, "n", 0),)), EVERYONE)
    assert {target for _, _, target in leads(catalog)} == {"q/r/s"}


def test_spaces_are_apart(catalog: Catalog) -> None:
    """A path is not found as a note; a tag, or a URL that no note is about, leads out and is not dangling."""
    reference = link("https://example.org", EdgeSpace.REFERENCE, EdgeKind.REFERENCE)
    edges = (link("b", EdgeSpace.PATH), link("tag", EdgeSpace.TAG, EdgeKind.TAG), reference)
    catalog.publish(note("a", *edges), EVERYONE)
    catalog.publish(note("b"), EVERYONE)
    assert [state for _, state, _ in leads(catalog)] == ["dangling", "external", "external"]
    assert catalog.ingest.count_edges(SOURCE_ID) == {EdgeState.DANGLING: 1, EdgeState.EXTERNAL: 2}
    about = Name(EdgeSpace.REFERENCE, "https://example.org")
    catalog.publish(note("c", names=(about,)), EVERYONE)
    assert leads(catalog)[2] == ("a", "resolved", "c")


def test_another_source_is_no_target(catalog: Catalog) -> None:
    """A note of the same name in another source neither resolves a link nor makes it ambiguous."""
    other = source("other")
    catalog.ingest.ensure_source(other)
    foreign = version("b", "text", other)
    named = replace(foreign.document, names=(Name(EdgeSpace.NOTE, "b"),))
    catalog.publish(note("a", link("b")), EVERYONE)
    catalog.publish(replace(foreign, document=named), EVERYONE)
    assert leads(catalog) == [("a", "dangling", "")]


def test_cycles_and_links_to_oneself_are_ordinary(catalog: Catalog) -> None:
    """Notes that link to each other and to themselves resolve like any other."""
    catalog.publish(note("a", link("b"), link("a")), EVERYONE)
    catalog.publish(note("b", link("a")), EVERYONE)
    assert leads(catalog) == [("a", "resolved", "b"), ("a", "resolved", "a"), ("b", "resolved", "a")]


def test_edges_are_listed_by_state_and_up_to_a_limit(catalog: Catalog) -> None:
    """An operator can ask for the first dangling links alone."""
    catalog.publish(note("a", link("x"), link("a"), link("y")), EVERYONE)
    dangling = catalog.ingest.list_edges(SOURCE_ID, [EdgeState.DANGLING], limit=1)
    assert [edge.edge.key for edge in dangling] == ["x"]
    assert len(catalog.ingest.list_edges(SOURCE_ID, limit=2)) == 2


def test_long_and_foreign_keys_are_kept(catalog: Catalog) -> None:
    """A key may be longer than an index entry of Postgres, and in any script."""
    long = "ключ-鍵-🗝" * 2_000
    catalog.publish(note("a", link(long)), EVERYONE)
    catalog.publish(note("b", names=(Name(EdgeSpace.NOTE, long),)), EVERYONE)
    assert leads(catalog) == [("a", "resolved", "b")]


def test_a_name_given_twice_is_one_target(catalog: Catalog) -> None:
    """A note whose alias equals its title is not ambiguous with itself."""
    twice = (Name(EdgeSpace.NOTE, "b"), Name(EdgeSpace.NOTE, "b"), Name(EdgeSpace.NOTE, "b", 2))
    catalog.publish(note("a", link("b")), EVERYONE)
    catalog.publish(note("b", names=twice), EVERYONE)
    assert leads(catalog) == [("a", "resolved", "b")]


KEYS = st.sampled_from(["k", "l"])
PATHS = st.sampled_from(["a", "b", "x/a", "x/b", "x/y/a"])
NAMES = st.lists(st.builds(Name, st.just(EdgeSpace.NOTE), KEYS, st.integers(0, 1)), max_size=2)
NOTES = st.dictionaries(PATHS, st.tuples(st.lists(KEYS, max_size=2), NAMES), min_size=1)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(notes=NOTES, gone=st.sets(PATHS))
def test_where_links_lead_depends_only_on_what_is_shown(
    catalog: Catalog, notes: dict[str, tuple[list[str], list[Name]]], gone: set[str]
) -> None:
    """After any notes came and went in any order, edges are what a comparison of all shown notes gives."""
    writes = {
        path: note(path, *map(link, keys), names=tuple(names), content=repr((keys, names)))
        for path, (keys, names) in notes.items()
    }
    for write in writes.values():
        catalog.publish(write, EVERYONE)
    for path in ["a", "b", "x/a", "x/b", "x/y/a"]:
        if path in gone or path not in writes:
            catalog.ingest.tombstone(note(path).document.document_id)
    shown = [write.document for path, write in writes.items() if path not in gone]
    assert catalog.ingest.list_edges(SOURCE_ID) == resolve(shown)
