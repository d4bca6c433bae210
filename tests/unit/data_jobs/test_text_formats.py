"""Formats that are text: encodings, prose, Markdown, HTML, tables, captions, markup languages, RTF."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from cortex.documents import BlockKind
from data_jobs.parsers.text import parse_text
from tests.unit.data_jobs.seen import blocks, parsed, seen


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Grüße".encode(), "Grüße"),
        ("Grüße".encode("utf-8-sig"), "Grüße"),
        ("Grüße".encode("utf-16"), "Grüße"),
        ("Grüße aus Köln".encode("utf-16-be"), "Grüße aus Köln"),
        ("Grüße aus Köln".encode("utf-16-le"), "Grüße aus Köln"),
        ("Grüße".encode("utf-32"), "Grüße"),
        ("Der Schlüssel liegt unter der Matte, sagte Frau Müller.".encode("cp1252"),
         "Der Schlüssel liegt unter der Matte, sagte Frau Müller."),
        (("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 4).encode("cp1251"),
         ("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 4).rstrip(" ") + " "),
        (("いろはにほへと ちりぬるを わかよたれそ つねならむ。" * 4).encode("shift_jis"),
         "いろはにほへと ちりぬるを わかよたれそ つねならむ。" * 4),
        (b"one\rtwo", "one\ntwo"),
        (b"a\x00b", "ab"),
    ],
)  # fmt: skip
def test_any_encoding_becomes_the_same_text(content: bytes, text: str) -> None:
    """Marks, UTF-16 with and without one, and legacy code pages are recognised; NULs and old line ends are settled."""
    assert [block for _, block, _ in seen(content, "a.txt")] == [text]


def test_prose_is_cut_at_blank_lines() -> None:
    """A paragraph of plain text is a run of non-blank lines, and its anchor names them."""
    assert seen("\n\none\ntwo\n \t\nthree\n", "a.txt") == [
        ("paragraph", "one\ntwo", "L3-L4"),
        ("paragraph", "three", "L6"),
    ]


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("\n  Moving the queue\n\nIt moves in May.\n", "Moving the queue"),
        ("経費精算の手引き\n\n期限は毎月末です。", "経費精算の手引き"),
        ("What is a pallet?\n\nA frame of wood.", "What is a pallet?"),
        ("Only one line", ""),
        ("It moves in May.\n\nIn June it is over.", ""),
        ("Dear Mara,\n\nit moves in May.", ""),
        ("Moving the queue\nwithout a pause\n\nIt moves in May.", ""),
        ("word " * 20 + "\n\nIt moves in May.", ""),
        ("2026-03-01 12:00:07 INFO start\n\n2026-03-01 12:00:09 INFO stop", ""),
        ("level=info msg=start\n\nlevel=info msg=stop", ""),
        ("--------\n\nIt moves in May.", ""),
        ("Name    Office    Phone\n\nMara    Oslo    117", ""),
        ("", ""),
    ],
)
def test_a_first_line_that_stands_alone_is_the_title(content: str, title: str) -> None:
    """One short line of words before other paragraphs names a plain text; sentences, greetings, logs and tables do not."""
    assert parse_text(content.encode(), "a.txt").title == title


def test_long_logs_are_cut_into_screenfuls() -> None:
    """A log without blank lines becomes blocks of bounded size whose anchors tile its lines."""
    body = parsed("\n".join(f"line {i} of the log" for i in range(1, 2001)), "a.log")
    assert max(len(block.text) for block in body.blocks) <= 4000
    spans = [(block.anchor.start, block.anchor.end) for block in body.blocks]
    assert (spans[0][0], spans[-1][1]) == (1, 2000)
    assert all(after[0] == before[1] + 1 for before, after in pairwise(spans))


MARKDOWN = """---
title: Runbook
author: Ana
tags: [ops, on-call]
date: 2026-03-04
---
# Deploy

Push to *main*, see [the guide](https://example.org/x) and [[Rollback|how to roll back]].

1. build
2. ship
   - tell `#ops`

| Step | Owner |
|------|-------|
| one  | Ana   |
| two  |       |

```sh
make ship
```

<details><p>Hidden &amp; found</p></details>

## Undo
Use `git revert`.
"""


def test_markdown() -> None:
    """Markdown loses its markup, keeps its structure, and anchors name lines of the file, front matter included."""
    body = parsed(MARKDOWN, "a.md")
    assert blocks(body) == [
        ("heading", "Deploy", "L7"),
        ("paragraph", "Push to main, see the guide and how to roll back.", "L9"),
        ("list", "1. build", "L11"),
        ("list", "2. ship", "L12"),
        ("list", "  - tell #ops", "L13"),
        ("table_row", "Step | Owner", "L15"),
        ("table_row", "Step: one | Owner: Ana", "L17"),
        ("table_row", "Step: two", "L18"),
        ("code", "make ship", "L20-L22"),
        ("paragraph", "Hidden & found", "L24"),
        ("heading", "Undo", "L26"),
        ("paragraph", "Use git revert.", "L27"),
    ]
    assert (body.title, body.author, body.meta["tags"]) == ("Runbook", "Ana", "ops, on-call")
    assert body.created_at is not None and body.created_at.date().isoformat() == "2026-03-04"
    assert body.blocks[-1].heading_path == ("Deploy", "Undo")


def test_front_matter_that_is_no_yaml_is_ignored() -> None:
    """Broken front matter costs its metadata, not the note."""
    body = parsed("---\na: [\n---\ntext\n", "a.md")
    assert blocks(body) == [("paragraph", "text", "L4")]
    assert dict(body.meta) == {}


HTML = """<!doctype html><html lang="de-AT"><head><title>Price list</title><meta name="author" content="Eva">
<style>p{}</style><script>var secret = 1</script></head><body>
<nav><a href="/">Home</a></nav>
<main><h1>Prices</h1><p>All in <b>euro</b>.<br>No discount.</p>
<ul><li>first<ul><li>inner</li></ul></li><li>second</li></ul>
<ol start="3"><li>third</li></ol>
<table><caption>2026</caption><thead><tr><th>City</th><th colspan="2">Rate</th></tr></thead>
<tr><td rowspan="2">Wien</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>
<pre>  keep
    this</pre><p style="display: none">hidden</p></main>
<footer>Imprint</footer></body></html>"""


def test_html() -> None:
    """A page yields its main text; navigation, scripts, styles and hidden parts do not appear; spans fill table cells."""
    body = parsed(HTML, "a.html")
    assert [(kind, text) for kind, text, _ in blocks(body)] == [
        ("heading", "Prices"),
        ("paragraph", "All in euro.\nNo discount."),
        ("list", "- first"),
        ("list", "  - inner"),
        ("list", "- second"),
        ("list", "3. third"),
        ("paragraph", "2026"),
        ("table_row", "City | Rate | Rate"),
        ("table_row", "City: Wien | Rate: 1 | Rate: 2"),
        ("table_row", "City: Wien | Rate: 3 | Rate: 4"),
        ("code", "  keep\n    this"),
    ]
    assert (body.title, body.author, body.language) == ("Price list", "Eva", "de")


def test_html_that_is_all_boilerplate_is_kept() -> None:
    """A page whose whole text stands in navigation is that text, rather than nothing."""
    assert seen("<nav><p>only links</p></nav>", "a.html") == [("paragraph", "only links", "L1")]


def test_layout_tables_are_transparent() -> None:
    """A table that only places things, as in mail, does not turn its content into rows."""
    page = "<table><tr><td><h2>News</h2><table><tr><td>inner</td></tr></table></td></tr></table>"
    assert [kind for kind, _, _ in seen(page, "a.html")] == ["heading", "paragraph"]


def test_html_depth_and_spans_are_bounded() -> None:
    """Absurd nesting and spans of a billion cells end soon, with the text."""
    deep = "<div>" * 1500 + "deep" + "</div>" * 1500
    assert [text for _, text, _ in seen(deep, "a.html")] == ["deep"]
    wide = "<table><tr><td colspan='999999999'>x</td><td rowspan='888888888'>y</td></tr></table>"
    assert [text for _, text, _ in seen(wide, "a.html")] == ["x | y"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimited(delimiter: str) -> None:
    """The delimiter is found by how evenly it cuts, quotes are honoured, and every record names its columns."""
    rows = [["name", "city", "sum"], ["Ana", '"Graz, Linz; or|so\tnear"', "12"], ["Bo", "Wien", "7"]]
    text = "\r\n".join(delimiter.join(row) for row in rows)
    assert seen(text, "a.csv") == [
        ("table_row", "name | city | sum", "L1"),
        ("table_row", "name: Ana | city: Graz, Linz; or|so near | sum: 12", "L2"),
        ("table_row", "name: Bo | city: Wien | sum: 7", "L3"),
    ]


def test_a_record_over_several_lines_is_anchored_at_all_of_them() -> None:
    """Quoted line breaks stay inside one record."""
    assert seen('k,v\n1,"a\nb"\n2,c\n', "a.csv")[1:] == [
        ("table_row", "k: 1 | v: a b", "L2-L3"),
        ("table_row", "k: 2 | v: c", "L4"),
    ]


VTT = """WEBVTT - Stand-up

NOTE nobody reads this

1
00:00:01.000 --> 00:00:03.000
<v Ana>Good <b>morning</b>.

00:00:03.500 --> 00:00:05.000
<v Ana>Shall we start?

01:02:03.000 --> 01:02:04.500
<v Bo>Yes &amp; no.
"""


def test_captions() -> None:
    """Cues of one speaker are joined to a turn, with the second at which it starts."""
    body = parsed(VTT, "a.vtt")
    assert blocks(body) == [
        ("turn", "Ana: Good morning. Shall we start?", "t=1"),
        ("turn", "Bo: Yes & no.", "t=3723"),
    ]
    assert (body.title, body.blocks[0].speaker, body.blocks[0].anchor.end) == ("Stand-up", "Ana", 5)


def test_subrip_with_names_before_colons() -> None:
    """SubRip works the same; a name before a colon is the speaker."""
    srt = "1\n00:00:01,000 --> 00:00:02,000\nAna Lind: Hello.\n\n2\n00:00:02,100 --> 00:00:03,000\nBo: Hi.\n"
    body = parsed(srt, "a.srt")
    assert [(block.speaker, block.text) for block in body.blocks] == [
        ("Ana Lind", "Ana Lind: Hello."),
        ("Bo", "Bo: Hi."),
    ]


def test_asciidoc() -> None:
    """AsciiDoc keeps headings, items, rows and code; macros show their text."""
    text = ":author: Ana\n= Title\n\nSee https://example.org[the *site*].\n\n* one\n** two\n\n.Rates\n|===\n|k |v\n\n|a |1\n|===\n\n----\nx = 1\n----\n"
    assert seen(text, "a.adoc") == [
        ("heading", "Title", "L2"),
        ("paragraph", "See the site.", "L4"),
        ("list", "- one", "L6"),
        ("list", "  - two", "L7"),
        ("paragraph", "Rates", "L9"),
        ("table_row", "k | v", "L11"),
        ("table_row", "k: a | v: 1", "L13"),
        ("code", "x = 1", "L17"),
    ]


def test_restructuredtext() -> None:
    """Underlines rank headings in the order they appear; literal blocks are code, roles show their text."""
    text = "=====\nTitle\n=====\n\nPart\n----\n\nSee :ref:`here <x>` and ``code``::\n\n    run me\n\n.. note:: mind\n\n.. image:: x.png\n   :alt: no\n\n- one\n"
    assert seen(text, "a.rst") == [
        ("heading", "Title", "L1"),
        ("heading", "Part", "L5"),
        ("paragraph", "See here and code:", "L8"),
        ("code", "    run me", "L9-L11"),
        ("paragraph", "mind", "L12"),
        ("list", "- one", "L17"),
    ]


def test_org() -> None:
    """Org keywords are metadata, drawers vanish, links show their description."""
    text = "#+TITLE: Plan\n* TODO [#A] Work :tag:\n:PROPERTIES:\n:ID: 1\n:END:\nSee [[https://x.org][site]].\n- a\n  - b\n| k | v |\n|---+---|\n| a | 1 |\n#+BEGIN_SRC sh\nls\n#+END_SRC\n"
    body = parsed(text, "a.org")
    assert body.title == "Plan"
    assert blocks(body) == [
        ("heading", "Work", "L2"),
        ("paragraph", "See site.", "L6"),
        ("list", "- a", "L7"),
        ("list", "  - b", "L8"),
        ("table_row", "k | v", "L9"),
        ("table_row", "k: a | v: 1", "L11"),
        ("code", "ls", "L13"),
    ]


def test_latex() -> None:
    """LaTeX shows what it sets: sections, items, verbatim code; preamble, comments and citations vanish."""
    text = "\\documentclass{article}\n\\title{A \\emph{b}}\n\\begin{document}\n\\section{One}\nBold \\textbf{word}\\cite{x}, 5\\%. % no\n\\begin{itemize}\n\\item first\n\\end{itemize}\n\\begin{verbatim}\n\\x\n\\end{verbatim}\n\\end{document}\n"
    body = parsed(text, "a.tex")
    assert body.title == "A b"
    assert blocks(body) == [
        ("heading", "One", "L4"),
        ("paragraph", "Bold word, 5%.", "L5"),
        ("list", "- first", "L7"),
        ("code", "\\x", "L10"),
    ]


def test_rtf() -> None:
    """RTF: code pages, Unicode with fallbacks, tables and the info group; fonts, pictures and fields' codes vanish."""
    text = (
        r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial;}}{\info{\title Plan B}{\author Ana}}"
        r"\pard\outlinelevel0 Head\par\pard Gr\'fc\'dfe \u28450\'3f\u23383? {\*\generator x}{\pict 89504e47}"
        r'{\field{\*\fldinst HYPERLINK "x"}{\fldrslt link}}\par{\f1 \'cf\'f0\'e8}\par'
        r"\trowd\intbl k\cell v\cell\row\intbl a\cell 1\cell\row\pard end\par}"
    )
    body = parsed(text, "a.rtf")
    assert (body.title, body.author) == ("Plan B", "Ana")
    assert [(kind, text) for kind, text, _ in blocks(body)] == [
        ("heading", "Head"),
        ("paragraph", "Grüße 漢字 link"),
        ("paragraph", "При"),
        ("table_row", "k | v"),
        ("table_row", "k: a | v: 1"),
        ("paragraph", "end"),
    ]


def test_data_files_are_code_with_lines() -> None:
    """Configuration is kept as written."""
    assert seen('a: 1\n\nb:\n  c: "x"\n', "a.yaml") == [
        ("code", "a: 1", "L1"),
        ("code", 'b:\n  c: "x"', "L3-L4"),
    ]


def test_box_notes() -> None:
    """Box notes are a tree of nodes."""
    text = {"type": "text", "text": "yes"}
    item = {
        "type": "check_list_item",
        "attrs": {"checked": True},
        "content": [{"type": "paragraph", "content": [text]}],
    }
    note = {"doc": {"type": "doc", "content": [{"type": "check_list", "content": [item]}]}}
    assert [(kind, text) for kind, text, _ in seen(json.dumps(note), "a.boxnote")] == [("list", "- [x] yes")]


def test_source_code() -> None:
    """Functions and methods are blocks with their dotted symbol; comments and decorators above belong to them."""
    text = 'import os\n\n\n# speaks\n@cached\ndef f():\n    """Say."""\n\n\nclass A:\n    x = 1\n\n    def m(self):\n        pass\n'
    body = parsed(text, "a.py")
    assert body.body == text
    assert [(block.kind, block.symbol, block.anchor.fragment) for block in body.blocks] == [
        (BlockKind.CODE, "", "L1"),
        (BlockKind.CODE, "f", "L4-L7"),
        (BlockKind.CODE, "A", "L10-L11"),
        (BlockKind.CODE, "A.m", "L13-L14"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "symbols"),
    [
        ("a.go", "package p\n\nfunc (s *S) M() {}\n\ntype S struct{}\n", ["S.M", "S"]),
        ("a.ts", "export const f = () => 1;\nclass A { m() {} }\n", ["f", "A", "A.m"]),
        ("a.rs", "impl S {\n fn a() {}\n}\n/// doc\n#[x]\npub struct T;\n", ["S", "S.a", "T"]),
        ("a.java", "package p;\nclass A { void m() {} }\n", ["A", "A.m"]),
        ("a.cpp", "namespace n { int A::h() { return 2; } }\n", ["n", "n.A::h"]),
        ("a.rb", "module M\n  def self.y; end\nend\n", ["M", "M.y"]),
        ("a.sql", "CREATE VIEW v AS SELECT 1;\n", ["v"]),
        ("a.kt", "class A {\n    fun m() {}\n}\n", ["A", "A.m"]),
    ],
)
def test_symbols_in_other_languages(name: str, text: str, symbols: list[str]) -> None:
    """The same rules name definitions in other languages."""
    assert [block.symbol for block in parsed(text, name).blocks if block.symbol] == symbols
