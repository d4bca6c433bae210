"""Chunks: what holds for any body, and what each kind of document wants."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.chunks import Chunk
from cortex.documents import Anchor, Block, BlockKind, ParsedBody
from cortex.errors import Corrupt
from data_jobs.stages.chunk import ChunkLimits, ChunkStage
from data_jobs.units import MAX_BYTES_PER_TOKEN
from tests.unit.data_jobs.bodies import BODIES, Part, count_tokens, document, parsed

LIMITS = ChunkLimits(target_tokens=40, max_tokens=50, note_tokens=50, window_tokens=80)


def chunks(body: ParsedBody, title: str = "", limits: ChunkLimits = LIMITS) -> tuple[Chunk, ...]:
    return ChunkStage(limits, count_tokens, "model.1").chunk(document(title), body)


def words(n: int, word: str = "word") -> str:
    return " ".join([word] * n)


@given(body=BODIES)
@settings(max_examples=60, deadline=None)
def test_a_chunk_is_a_span_of_the_body(body: ParsedBody) -> None:
    """A chunk's text is exactly its bytes of the body, and spans are in order and apart."""
    encoded, made = body.body.encode(), chunks(body)
    assert [chunk.text for chunk in made] == [
        encoded[chunk.byte_start : chunk.byte_end].decode() for chunk in made
    ]
    places = [place for chunk in made for place in (chunk.byte_start, chunk.byte_end)]
    assert places == sorted(places)
    assert [chunk.ordinal for chunk in made] == list(range(len(made)))


@given(body=BODIES)
@settings(max_examples=60, deadline=None)
def test_chunks_cover_all_that_is_not_space(body: ParsedBody) -> None:
    """Every character of a block that is not space lies in a chunk."""
    covered = bytearray(len(body.body.encode()))
    for chunk in chunks(body):
        covered[chunk.byte_start : chunk.byte_end] = b"\x01" * (chunk.byte_end - chunk.byte_start)
    missing = []
    for block in body.blocks:
        at = block.byte_start
        for character in block.text:
            size = len(character.encode())
            if not character.isspace() and not all(covered[at : at + size]):
                missing.append((at, character))
            at += size
    assert missing == []


@given(body=BODIES, max_tokens=st.integers(4, 60))
@settings(max_examples=60, deadline=None)
def test_chunks_fit(body: ParsedBody, max_tokens: int) -> None:
    """No chunk has more tokens, or far more bytes, than the maximum, but a single character with its marks may."""
    limits = ChunkLimits(max_tokens * 3 // 4, max_tokens, max_tokens, 80)
    large = [
        chunk.text
        for chunk in chunks(body, limits=limits)
        if chunk.n_tokens > max_tokens or len(chunk.text.encode()) > 2 * max_tokens * MAX_BYTES_PER_TOKEN
    ]
    assert [text for text in large if len(set(text) - set("\u0301\u200d👩👧")) > 1] == []


@given(body=BODIES)
@settings(max_examples=30, deadline=None)
def test_the_same_body_gives_the_same_chunks(body: ParsedBody) -> None:
    """Chunking is deterministic, ids included, and ids are distinct."""
    assert chunks(body) == chunks(body)
    assert len({chunk.chunk_id for chunk in chunks(body)}) == len(chunks(body))


def test_a_body_without_text_has_no_chunks() -> None:
    """Nothing but space gives nothing."""
    assert chunks(parsed(Part(" \n\t"))) == ()
    assert chunks(ParsedBody("", ())) == ()


def test_blocks_that_overlap_are_refused() -> None:
    """Blocks that are no ordered spans of the body are a defect of the parser, not a chunk."""
    blocks = (Block(BlockKind.PARAGRAPH, "ab", 0, 2), Block(BlockKind.PARAGRAPH, "bc", 1, 3))
    with pytest.raises(Corrupt):
        chunks(ParsedBody("abc", blocks))


def test_a_short_note_stays_whole() -> None:
    """A note within the limit is one chunk, whatever its headings."""
    body = parsed(
        Part("One", BlockKind.HEADING),
        Part(words(20), path=("One",)),
        Part("Two", BlockKind.HEADING),
        Part(words(20), path=("Two",)),
    )
    (only,) = chunks(body)
    assert (only.text, only.heading_path) == (body.body.strip(), ())


def test_a_chunk_closes_past_the_target_and_before_headings() -> None:
    """Blocks are packed until the target is passed; a heading stands with what follows it."""
    body = parsed(
        Part(words(45)),
        Part("Rules", BlockKind.HEADING),
        Part(words(20), path=("Rules",)),
        Part(words(10), path=("Rules",)),
        Part("Next", BlockKind.HEADING),
        Part(words(30), path=("Next",)),
    )
    assert [chunk.text.split("\n")[0] for chunk in chunks(body)] == [words(45), "Rules", "Next"]
    assert [chunk.heading_path for chunk in chunks(body)] == [(), ("Rules",), ("Next",)]


def test_a_heading_is_never_left_behind() -> None:
    """A heading whose text does not fit any more moves to the next chunk with it."""
    body = parsed(
        Part(words(10)), Part("Rules", BlockKind.HEADING), Part(words(45), path=("Rules",)), Part(words(9))
    )
    assert [chunk.text.startswith("Rules") for chunk in chunks(body)] == [False, True, False]


def test_title_and_headings_are_embedded_not_cited() -> None:
    """The embedded text begins with title and heading path; the cited text does not."""
    body = parsed(Part(words(45), path=("Guide", "Setup")), Part(words(45), path=("Guide", "Use")))
    first, second = chunks(body, title="Manual")
    assert first.embed_text == f"Manual\nGuide\nSetup\n{words(45)}"
    assert (second.embed_text.split("\n")[:3], second.text) == (["Manual", "Guide", "Use"], words(45))


def test_a_text_that_begins_with_its_title_says_it_once() -> None:
    """The title is not repeated before a text that begins with it."""
    (only,) = chunks(parsed(Part("Wings lift. They do.")), title="Wings lift.")
    assert only.embed_text == only.text


def test_a_long_prefix_leaves_room_for_the_text() -> None:
    """What stands above is cut, outer headings first, so that the window holds the whole text."""
    body = parsed(Part(words(45), path=(words(30, "outer"), "inner")))
    (only,) = chunks(body, title="Manual")
    assert only.embed_text == f"Manual\ninner\n{words(45)}"
    (long,) = chunks(body, title=words(300, "long"))
    assert count_tokens(long.embed_text) <= LIMITS.window_tokens
    assert long.embed_text.endswith(words(45))


def test_functions_are_chunks_with_their_symbols() -> None:
    """Each function is a chunk of its own; a lone brace is not; a long function keeps its symbol in every piece."""
    body = parsed(
        Part("import os", BlockKind.CODE),
        Part("def f():\n" + "    call(a, b, c)\n" * 3, BlockKind.CODE, symbol="f"),
        Part("def g():\n" + "    call(a, b, c)\n" * 12, BlockKind.CODE, symbol="A.g"),
        Part("}", BlockKind.CODE, symbol="A"),
    )
    made = chunks(body)
    assert [chunk.heading_path for chunk in made] == [("f",), ("A.g",), ("A.g",), ("A.g",)]
    assert made[0].text.startswith("import os")
    assert made[-1].text.endswith("}")
    assert all(chunk.embed_text.startswith("A.g\n") for chunk in made[1:])


def row(number: int, text: str, sheet: str = "Q1") -> Part:
    return Part(text, BlockKind.TABLE_ROW, anchor=Anchor("row", number, number, sheet), gap="\n")


def test_tables_are_cut_between_rows_with_their_header() -> None:
    """Rows are packed whole; later chunks are embedded with the first row in front; sheets never mix."""
    rows = [row(1, "Region | Sales")] + [row(n, f"West {n} | {n} {words(8)}") for n in range(2, 9)]
    first, second, other = chunks(parsed(*rows, row(1, "Name | Age", "Staff")))
    assert [chunk.anchor.fragment for chunk in (first, second, other)] == ["Q1!1-4", "Q1!5-8", "Staff!1"]
    assert second.embed_text == f"Region | Sales\n{second.text}"
    assert first.embed_text == first.text


def test_rows_that_name_their_columns_need_no_header() -> None:
    """A row that says its column names is not embedded with them twice."""
    rows = [row(1, "Region | Sales")] + [row(n, f"Region: West | Sales: {words(12)}") for n in range(2, 7)]
    assert [chunk.embed_text == chunk.text for chunk in chunks(parsed(*rows))] == [True] * 3


def test_turns_are_embedded_with_their_speakers() -> None:
    """The speaker stands in front of each turn that does not name them, in the embedded text alone."""
    body = parsed(
        Part("We ship.", BlockKind.TURN, speaker="Ana", anchor=Anchor("second", 3, 5)),
        Part("Bo: When?", BlockKind.TURN, speaker="Bo", anchor=Anchor("second", 6, 9)),
    )
    (only,) = chunks(body)
    assert (only.text, only.embed_text) == ("We ship.\n\nBo: When?", "Ana: We ship.\nBo: When?")
    assert (only.anchor, only.kind) == (Anchor("second", 3, 9), "turn")


def test_messages_span_one_anchor_that_opens_the_first() -> None:
    """A chunk of several messages counts them all, and its link is that of the first."""
    body = parsed(
        Part("Ana: When?", BlockKind.TURN, speaker="Ana", anchor=Anchor("message", 1, 1, "p100"), gap="\n"),
        Part("Bo: Soon.", BlockKind.TURN, speaker="Bo", anchor=Anchor("message", 2, 2, "p200"), gap="\n"),
    )
    (only,) = chunks(body)
    assert (only.anchor, only.text) == (Anchor("message", 1, 2, "p100"), "Ana: When?\nBo: Soon.")


def test_slides_are_cut_apart_once_they_have_substance() -> None:
    """A slide that says something is a chunk of its own, cited by its number."""
    parts = [Part(words(20), anchor=Anchor("slide", number, number)) for number in (1, 2, 3)]
    assert [chunk.anchor.fragment for chunk in chunks(parsed(*parts))] == ["slide=1", "slide=2", "slide=3"]


def test_pieces_of_a_long_block_are_cited_by_their_own_lines() -> None:
    """A block of many lines is cut, and each chunk's anchor names its own lines."""
    text = "\n".join(f"{words(9)}." for _ in range(12))
    made = chunks(parsed(Part(text, anchor=Anchor("line", 5, 16))))
    assert [chunk.anchor.fragment for chunk in made] == ["L5-L8", "L9-L12", "L13-L16"]


def test_long_sentences_are_cut_at_words() -> None:
    """A sentence over the maximum is cut at spaces, never inside a word."""
    made = chunks(parsed(Part(words(500))))
    assert {word for chunk in made for word in chunk.text.split()} == {"word"}


def test_chinese_is_cut_at_its_stops() -> None:
    """Chinese and Japanese sentences end at their own marks, without spaces."""
    made = chunks(parsed(Part("这是一个关于队列的句子。" * 12)))
    assert {chunk.text[-1] for chunk in made} == {"。"}


@pytest.mark.parametrize("text", ["." * 1_000_000, "x" * 1_000_000, "word " * 200_000, "字" * 300_000])
def test_a_huge_line_takes_bounded_time(text: str) -> None:
    """Megabytes without a boundary are cut in seconds, into pieces that fit."""
    started = time.perf_counter()
    made = chunks(parsed(Part(text)), limits=ChunkLimits(200, 240, 240, 254))
    assert time.perf_counter() - started < 30
    assert max(chunk.n_tokens for chunk in made) <= 240
    assert max(len(chunk.text) for chunk in made) <= 240 * MAX_BYTES_PER_TOKEN
