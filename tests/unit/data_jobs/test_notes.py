"""Notes: the body is the file, and what authors wrote between notes is found where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.documents import ParsedBody
from cortex.edges import EdgeSpace, Name
from data_jobs.parsers.notes import parse_dendron_note, parse_note
from data_jobs.parsers.org_notes import parse_org_note
from data_jobs.parsers.registry import parse
from data_jobs.parsers.wire import BrokenWire, decode_result, encode_result
from tests.unit.data_jobs.bodies import count_tokens, document
from tests.unit.data_jobs.seen import blocks

NOTE, ORG_NOTE = "text/markdown; variant=vault", "text/org; variant=vault"


def note(text: str) -> ParsedBody:
    return parse_note(text.encode(), "a.md")


def links(parsed: ParsedBody) -> list[tuple[str, str, str, str]]:
    """Each edge as (kind, space, target, anchor)."""
    return [(str(edge.kind), str(edge.space), edge.target, edge.anchor) for edge in parsed.edges]


def places(parsed: ParsedBody) -> list[str]:
    """The source text of each edge."""
    encoded = parsed.body.encode()
    return [encoded[edge.byte_start : edge.byte_end].decode() for edge in parsed.edges]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[a]]", ("link", "note", "a", "")),
        ("[[a b|shown]]", ("link", "note", "a b", "")),
        ("[[a\\|shown in a table]]", ("link", "note", "a", "")),
        ("[[folder/a.md#Heading two]]", ("link", "note", "folder/a.md", "Heading two")),
        ("[[a#^b1]]", ("block", "note", "a", "^b1")),
        ("[[a^b1]]", ("block", "note", "a", "^b1")),
        ("![[a]]", ("embed", "note", "a", "")),
        ("![[a#^b1]]", ("embed", "note", "a", "^b1")),
        ("![[scan.PNG|300]]", ("embed", "attachment", "scan.PNG", "")),
        ("[[./a]]", ("link", "path", "./a", "")),
        ("[[/from/root]]", ("link", "path", "/from/root", "")),
        ("[[proj.sub.note]]", ("link", "note", "proj.sub.note", "")),
        ("[text](../b%20c.md#a-heading)", ("link", "path", "../b%20c.md", "a-heading")),
        ("[text](<b c.md> 'title')", ("link", "path", "b c.md", "")),
        ("[wiki (x)](b_(x).md)", ("link", "path", "b_(x).md", "")),
        ("![alt](img/x.svg)", ("embed", "attachment", "img/x.svg", "")),
        ("[a [nested] label](b.md)", ("link", "path", "b.md", "")),
        ("[full][ref]\n\n[ref]: sub/b.md 'T'", ("link", "path", "sub/b.md", "")),
        ("[ref]\n\n[REF]: b.md", ("link", "path", "b.md", "")),
        ("[[b]]\n\n[b]: other/b.md", ("link", "path", "other/b.md", "")),
        ("<https://example.org/x>", ("reference", "reference", "https://example.org/x", "")),
        ("[t](https://example.org/x)", ("reference", "reference", "https://example.org/x", "")),
        ("on #garden/herbs today", ("tag", "tag", "garden/herbs", "")),
        ("#сад", ("tag", "tag", "сад", "")),
        ("#caf\u0065\u0301", ("tag", "tag", "caf\u0065\u0301", "")),
        ("[[ノート]]", ("link", "note", "ノート", "")),
        ("- item [[a]]", ("link", "note", "a", "")),
        ("> quoted [[a]]", ("link", "note", "a", "")),
        ("| h |\n| - |\n| [[a]] |", ("link", "note", "a", "")),
        ("# Heading [[a]]", ("link", "note", "a", "")),
        ("`code` and `` a ` b `` [[a]]", ("link", "note", "a", "")),
        ("an unclosed ` tick [[a]]", ("link", "note", "a", "")),
    ],
)
def test_what_authors_write_is_found(text: str, found: tuple[str, str, str, str]) -> None:
    """Each way to link, embed or tag gives one edge of its kind, with the author's own words."""
    assert links(note(text)) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "`[[a]]`",
        "```\n[[a]] #tag\n```",
        "~~~md\n[t](b.md)\n~~~",
        "    [[in indented code]]",
        "text <!-- [[a]] --> text",
        "<!-- [[a]]\n -->",
        "\\[[a]]",
        "[[#Same note]]",
        "[here](#below)",
        "[mail](mailto:a@b.example)",
        "[x](javascript:alert)",
        "[[a\nb]]",
        "[[ ]]",
        "no #12 and a#tag and # heading",
        "[note][^1]\n\n[^1]: footnote",
        "- [ ] task\n- [x] done",
    ],
)
def test_what_only_looks_like_a_link_is_none(text: str) -> None:
    """Code, comments, escapes, links within the note, other schemes and task boxes give no edge."""
    assert links(note(text)) == []


def test_dendron_writes_the_label_first() -> None:
    """In a Dendron vault what follows the bar is the target, a vault prefix is dropped, and `id` is a name."""
    text = (
        b"---\nid: x1y2\ntitle: T\nupdated: 1608518909864\n---\n[[Label|a.b.c#^k]] [[dendron://main/d.e]]\n"
    )
    parsed = parse_dendron_note(text, "root.md")
    assert links(parsed) == [("block", "note", "a.b.c", "^k"), ("link", "note", "d.e", "")]
    assert parsed.names == (Name(EdgeSpace.ID, "x1y2"),)
    assert str(parsed.updated_at) == "2020-12-21 02:48:29.864000+00:00"


def test_front_matter_gives_tags_aliases_and_links() -> None:
    """Tags and wikilinks in front matter are edges in their place; aliases are names."""
    text = (
        "---\ntitle: The note\naliases:\n  - First\n  - 'Second, with comma'\nalias: Third\ntags: [one, two/three]\n"
        'tag: four five\nup: "[[Parent]]"\nmatrix: [[a, b]]\n---\nBody.\n'
    )
    parsed = note(text)
    assert places(parsed) == ["one", "two/three", "four", "five", "[[Parent]]"]
    assert [name.key for name in parsed.names] == ["First", "Second, with comma", "Third"]
    assert parsed.title == "The note"
    assert blocks(parsed) == [("paragraph", "Body.", "L12")]


@pytest.mark.parametrize(
    "yaml",
    [
        "a: [",
        "title: 'x",
        "!!python/object/apply:os.system ['true']",
        "- just\n- a list",
        "\t- tab",
        "a: b: c",
        "[" * 5_000,
    ],
)
def test_broken_front_matter_keeps_the_note(yaml: str) -> None:
    """Front matter that cannot be read is noted, and the note is read without it."""
    parsed = note(f"---\n{yaml}\n---\nBody with [[a]].\n")
    assert parsed.meta["front_matter"] == "broken"
    assert links(parsed) == [("link", "note", "a", "")]


def test_a_yaml_bomb_stays_small() -> None:
    """Nested aliases are not expanded."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join(['*' + a] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    parsed = note("---\n" + "\n".join(lines) + "\n---\nBody.\n")
    assert parsed.meta == {"a": ", ".join("x" * 9)}


def test_a_note_with_only_a_title_can_still_be_found() -> None:
    """A note without a body stands by its title, from front matter or an Org keyword."""
    assert blocks(note('---\ntitle: "A stub"\n---\n')) == [("heading", "A stub", "L2")]
    org = parse_org_note(b":PROPERTIES:\n:ID: i1\n:END:\n#+title: Foo\n", "foo.org")
    assert blocks(org) == [("heading", "Foo", "L4")]


def test_blocks_are_the_lines_of_the_file() -> None:
    """Markup stays in the text; fences and heading marks do not, and line ends stay as they are."""
    parsed = note(
        "# A *b*\r\n\r\nText **bold** [[x|y]]\r\nsecond\r\n\r\n```py\r\n  code()\r\n```\r\n\r\n- one\r\n- two ^k\r\n"
    )
    assert blocks(parsed) == [
        ("heading", "A *b*", "L1"),
        ("paragraph", "Text **bold** [[x|y]]\r\nsecond", "L3-L4"),
        ("code", "  code()", "L6-L8"),
        ("list", "- one", "L10"),
        ("list", "- two ^k", "L11"),
    ]
    assert parsed.title == "A b"
    assert {block.heading_path for block in parsed.blocks[1:]} == {("A *b*",)}


ORG = """:PROPERTIES:
:ID:       file-id
:ROAM_ALIASES: Batman "The Dark Knight"
:ROAM_REFS: "http://site.example/a b.html" @doe2020 cite:roe2021
:END:
#+title: Bruce /Wayne/
#+filetags: :hero:rich:

Intro, see [[id:other-id][Other]] and [[file:sub/x.org::*Head][x]].

* TODO A [[https://gnu.example][linked]] heading  :night:
:PROPERTIES:
:ID: heading-id
:END:
Text [[roam:Robin]] [[./y.org]] [cite:@doe2020;@roe2021] [[*internal]] ~[[id:verbatim]]~.
#+begin_src org
[[id:in-code]]
:ID: not-an-id
#+end_src
"""


def test_org_files_have_ids_aliases_references_and_tags() -> None:
    """The drawers, keywords and links of org-roam become names and edges, headings with ids included."""
    parsed = parse_org_note(ORG.encode(), "x.org")
    heading = ORG.index("* TODO")
    assert parsed.names == (
        Name(EdgeSpace.ID, "file-id"),
        Name(EdgeSpace.NOTE, "Batman"),
        Name(EdgeSpace.NOTE, "The Dark Knight"),
        Name(EdgeSpace.REFERENCE, "http://site.example/a b.html"),
        Name(EdgeSpace.REFERENCE, "@doe2020"),
        Name(EdgeSpace.REFERENCE, "@roe2021"),
        Name(EdgeSpace.NOTE, "Bruce Wayne", 1),
        Name(EdgeSpace.ID, "heading-id", byte_start=heading),
        Name(EdgeSpace.NOTE, "TODO A linked heading", 1, heading),
    )
    assert links(parsed) == [
        ("tag", "tag", "hero", ""),
        ("tag", "tag", "rich", ""),
        ("id", "id", "other-id", ""),
        ("link", "path", "sub/x.org", "*Head"),
        ("reference", "reference", "https://gnu.example", ""),
        ("tag", "tag", "night", ""),
        ("link", "note", "Robin", ""),
        ("link", "path", "./y.org", ""),
        ("reference", "reference", "@doe2020", ""),
        ("reference", "reference", "@roe2021", ""),
    ]
    assert parsed.title == "Bruce /Wayne/"


PIECES = st.sampled_from(
    ["# H\n", "## 見出し\n", "text [[a|b]] ", "![[é#^x]]", "[t](p%20q.md)", "`c [[n]]`", "\n\n", "\r\n", "- i\n", "> q\n",
     "```\ncode\n```\n", "| a | b |\n| - | - |\n| [[c\\|d]] | 2 |\n", "#tag ", "🗝 ", "e\u0301", "<div>\nx\n</div>\n", "[r]: z.md\n",
     "* Org [[id:x]] :t:\n", ":PROPERTIES:\n:ID: q\n:END:\n", "#+begin_src\nx\n#+end_src\n", "    indented\n", "1. one\n", "[", "]]", "`"]
)  # fmt: skip
FILES = st.builds(
    lambda mark, front, pieces: mark + front + "".join(pieces),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(
        ["", "---\ntitle: T é\ntags: [a, ü]\n---\n", "---\r\naliases: x\r\n---\r\n", "---\nbroken: [\n---\n"]
    ),
    st.lists(st.one_of(PIECES, st.text("ab[]#`*|\n é", max_size=8)), max_size=14),
)


@given(FILES, st.booleans())
def test_every_span_is_one_of_the_file(text: str, is_org: bool) -> None:
    """Blocks and edges delimit bytes of the original file, in order: a slice equals the text, and holds the target."""
    content = text.encode()
    parsed = (parse_org_note if is_org else parse_note)(content, "a")
    assert parsed.body.encode() == content
    at = 0
    for block in parsed.blocks:
        assert at <= block.byte_start < block.byte_end
        assert content[block.byte_start : block.byte_end].decode() == block.text
        at = block.byte_end
    for edge, place in zip(parsed.edges, places(parsed), strict=True):
        is_by_definition = edge.target == "z.md" and "z.md" not in place
        assert edge.target in place or is_by_definition
    assert list(parsed.edges) == sorted(parsed.edges, key=lambda edge: (edge.byte_start, edge.byte_end))
    assert decode_result(*encode_result(parsed)) == parsed


@given(FILES)
def test_chunks_are_spans_of_the_file(text: str) -> None:
    """What is cited of a note is found at its byte range in the file."""
    from data_jobs.stages.chunk import ChunkLimits, ChunkStage

    parsed = note(text)
    stage = ChunkStage(ChunkLimits(20, 30, 10, 60), count_tokens, "m")
    for chunk in stage.chunk(document("T"), parsed):
        assert text.encode()[chunk.byte_start : chunk.byte_end].decode() == chunk.text


@pytest.mark.parametrize(
    "content", [b"bare\rreturn [[a]]", "caf\xe9 [[a]]".encode("cp1252"), b"bell\x07 [[a]]"]
)
def test_a_file_that_is_no_clean_utf8_says_so(content: bytes) -> None:
    """Spans are then of the decoded text, which the metadata states."""
    parsed = parse(content, "a.md", NOTE)
    assert parsed.meta["byte_ranges"] == "decoded"
    assert places(parsed) == ["[[a]]"]
    blocks(parsed)


def test_the_media_type_chooses_the_note_parser() -> None:
    """Only files of a vault keep their markup; the same bytes from a folder of documents are rendered."""
    assert parse(b"**b** [[a]]", "a.md", NOTE).body == "**b** [[a]]"
    assert parse(b"**b** [[a]]", "a.md", "text/markdown").body == "b a"
    assert parse(b"*b* [[id:a][A]]", "a.org", ORG_NOTE).body == "*b* [[id:a][A]]"
    assert parse(b"*b* [[id:a][A]]", "a.org", "text/org").body == "b A"


def test_more_links_than_anybody_writes_are_refused() -> None:
    """A hostile file of links is a failure with a reason."""
    from cortex.errors import Unparsable

    with pytest.raises(Unparsable) as caught:
        parse_org_note(b"[[id:x]] " * 100_001, "a.org")
    assert caught.value.error_code == "document.too_large"


@pytest.mark.parametrize(
    "head",
    [{"edges": [["link", "note", "a", 0, 99, "", ""]]}, {"edges": [["gossip", "note", "a", 0, 1, "", ""]]},
     {"edges": [["link", "note", "a", 2, 1, "", ""]]}, {"edges": [["link"]]}, {"names": [["note", "a", 0, -1]]}],
)  # fmt: skip
def test_a_child_cannot_send_links_that_leave_the_body(head: dict[str, object]) -> None:
    """What the parser's child sends is checked."""
    sent, body = encode_result(note("[[a]]"))
    with pytest.raises(BrokenWire):
        decode_result({**sent, **head}, body)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.md", "text/markdown; variant=vault"), ("a.org", "text/org; variant=vault"), ("a.txt", "text/plain")],
)
def test_a_line_of_ten_megabytes_is_read_whole(name: str, media_type: str) -> None:
    """One line of ten megabytes is text like any other."""
    line = "x" * 10_000_000
    assert parse(line.encode(), name, media_type).body == line
