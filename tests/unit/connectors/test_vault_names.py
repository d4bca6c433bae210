"""The keys by which a vault's links and notes meet."""

from __future__ import annotations

import pytest

from connectors.vault_names import names_of, with_key
from cortex.edges import Edge, EdgeKind, EdgeSpace, Name


def keys(external_id: str, space: EdgeSpace, *inside: Name) -> dict[str, int]:
    return {name.key: name.rank for name in names_of(external_id, inside) if name.space is space}


def key(target: str, space: EdgeSpace, external_id: str = "dir/sub/from.md") -> str:
    return with_key(Edge(EdgeKind.LINK, space, target, 0, 1), external_id).key


def test_a_note_is_found_by_its_path_and_every_ending_of_it() -> None:
    """The whole path ranks before its endings; extension and case do not count."""
    assert keys("Dir/Sub/My Note.md", EdgeSpace.NOTE) == {
        "dir/sub/my note": 0,
        "sub/my note": 1,
        "my note": 1,
    }


def test_a_path_keeps_its_case() -> None:
    """A Markdown link names the file with or without its extension, as it is written."""
    assert keys("Dir/A.md", EdgeSpace.PATH) == {"Dir/A.md": 0, "Dir/A": 1}
    assert keys("Dir/paper.pdf", EdgeSpace.PATH) == {"Dir/paper.pdf": 0}


def test_a_folder_leads_to_its_index_then_to_its_readme() -> None:
    """`index` ranks before `README`, and a note of the folder's name before both."""
    assert keys("a/b/index.md", EdgeSpace.PATH)["a/b"] == 2
    assert keys("a/b/README.md", EdgeSpace.PATH)["a/b"] == 3
    assert keys("a/b/index.md", EdgeSpace.NOTE)["b"] == 2
    assert keys("index.md", EdgeSpace.PATH)[""] == 2


def test_dots_in_a_name_are_no_extension() -> None:
    """Dendron's hierarchy stays whole."""
    assert keys("proj.sub.note.md", EdgeSpace.NOTE) == {"proj.sub.note": 0}
    assert key("proj.sub.note", EdgeSpace.NOTE) == "proj.sub.note"


def test_aliases_and_titles_rank_last() -> None:
    """A file of a name goes before a note that is only also called so."""
    inside = (Name(EdgeSpace.NOTE, "Other"), Name(EdgeSpace.NOTE, "A"), Name(EdgeSpace.NOTE, "Title", 1))
    assert keys("a.md", EdgeSpace.NOTE, *inside) == {"a": 0, "other": 4, "title": 5}


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("x.md", "dir/sub/x.md"),
        ("./x.md", "dir/sub/x.md"),
        ("../x%20y.md", "dir/x y.md"),
        ("../../", ""),
        ("./", "dir/sub"),
        ("/top/x.md", "top/x.md"),
        ("../../../x.md", "../x.md"),
        ("caf\u0065\u0301.md", "dir/sub/caf\u00e9.md"),
        ("caf%C3%A9.md", "dir/sub/caf\u00e9.md"),
        ("100%.md", "dir/sub/100%.md"),
    ],
)
def test_a_path_is_resolved_from_the_notes_folder(target: str, found: str) -> None:
    """Relative paths start in the note's folder, absolute ones at the root; percent signs are decoded, forms composed."""
    assert key(target, EdgeSpace.PATH) == found


@pytest.mark.parametrize(
    ("link", "file"),
    [
        ("Caf\u0065\u0301", "CAF\u00c9.md"),  # NFD and NFC
        ("STRASSE", "Straße.md"),
        ("ΣΊΣΥΦΟΣ", "Σίσυφος.md"),
        ("ノート", "ノ\u30fcト.md"),
        ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af.md"),  # composed and in letters
        ("note.md", "Note.markdown"),
        ("folder\\note", "folder/note.org"),
    ],
)
def test_every_script_and_form_meets(link: str, file: str) -> None:
    """Names are equal whatever their Unicode form and case."""
    assert key(link, EdgeSpace.NOTE) in keys(file, EdgeSpace.NOTE)
