"""Evidence from visible hits: duplicates folded per reader, neighbours merged, documents given their share."""

from __future__ import annotations

from cortex.documents import Anchor
from cortex.evidence import Question
from retrieval.assemble import assemble
from retrieval.path import search
from tests.twins.query import TwinWorld, hit, person

ANN, BOTH = frozenset({"ann"}), frozenset({"ann", "bob"})
LONG = "the quick brown fox jumps over the lazy dog near the old harbour wall while nine sailors watch and cheer "


def test_fragments_are_numbered_from_one_and_cut_at_k() -> None:
    """The best k passages are numbered in order."""
    fragments = assemble([hit("a", "one two three"), hit("b", "four five six"), hit("c", "seven eight")], 2)
    assert [(each.number, each.fragment_id) for each in fragments] == [(1, "a"), (2, "b")]


def test_near_duplicates_fold_into_the_best_ranked() -> None:
    """A passage that differs in a word or two is named as a duplicate of the one above it."""
    text = LONG + "and then they all go home to sleep until the morning bell rings again at six"
    fragments = assemble([hit("a", text), hit("b", "else"), hit("c", text.replace("six", "seven"))], 5)
    assert [(each.fragment_id, each.duplicate_ids) for each in fragments] == [("a", ("c",)), ("b", ())]


def test_different_passages_stay_apart() -> None:
    """Sharing a sentence does not make two passages the same."""
    fragments = assemble(
        [hit("a", LONG + "red " * 20), hit("b", LONG + "The tide table lists other hours.")], 5
    )
    assert len(fragments) == 2


def test_short_texts_fold_only_when_equal() -> None:
    """Two short texts that differ in a figure are two facts; case and spacing are no difference."""
    fragments = assemble([hit("a", "Budget 2024"), hit("b", "Budget 2025"), hit("c", "budget  2024")], 5)
    assert [(each.fragment_id, each.duplicate_ids) for each in fragments] == [("a", ("c",)), ("b", ())]


def test_repeats_within_a_document_are_dropped_without_a_name() -> None:
    """A document is not its own duplicate."""
    fragments = assemble(
        [hit("a#0", "same text", document_id="a"), hit("a#7", "same text", document_id="a", ordinal=7)], 5
    )
    assert [(each.fragment_id, each.duplicate_ids) for each in fragments] == [("a#0", ())]


async def test_which_duplicate_is_shown_depends_on_the_reader() -> None:
    """A reader who cannot see the original gets the copy, and neither learns of what is hidden."""
    world = TwinWorld({"copy": [LONG], "original": [LONG]}, {"copy": BOTH, "original": ANN})
    ann = await search(world.parts(), person("ann"), Question("fox harbour"))
    bob = await search(world.parts(), person("bob"), Question("fox harbour"))
    assert [(each.hit.document_id, each.duplicate_ids) for each in ann.fragments] == [("copy", ("original",))]
    assert [(each.hit.document_id, each.duplicate_ids) for each in bob.fragments] == [("copy", ())]


def test_neighbouring_chunks_become_one_fragment_in_document_order() -> None:
    """Chunks that follow each other are joined under the better one's identity, with anchor and bytes of all."""
    second = hit("d#1", "second part", document_id="d", ordinal=1)
    first = hit("d#0", "first part", document_id="d", ordinal=0)
    (merged,) = assemble([second, hit("d#2", "third part", document_id="d", ordinal=2), first], 5)
    assert merged.text == "first part\n\nsecond part\n\nthird part"
    assert merged.fragment_id == "d#1"
    assert merged.anchor == Anchor("line", 1, 3)
    assert (merged.byte_start, merged.byte_end) == (0, 29_998)


def test_at_most_three_chunks_merge() -> None:
    """A long run of neighbours does not bury the passage that was found."""
    run = [hit(f"d#{n}", f"part {n} {'abcdefg'[n] * 9}", document_id="d", ordinal=n) for n in range(5)]
    assert [each.text.count("part") for each in assemble(run, 5)] == [3, 2]


def test_chunks_with_a_gap_or_in_other_sheets_stay_apart() -> None:
    """Only what adjoins in the source is joined: not over a gap, not over a sheet's end."""
    gap = [hit("d#0", "one", document_id="d"), hit("d#2", "three", document_id="d", ordinal=2)]
    assert len(assemble(gap, 5)) == 2
    sheets = [
        hit("s#0", "one", document_id="s", anchor=Anchor("row", 1, 2, "Q1")),
        hit("s#1", "two", document_id="s", ordinal=1, anchor=Anchor("row", 1, 2, "Q2")),
    ]
    assert len(assemble(sheets, 5)) == 2


def test_neighbouring_messages_are_joined() -> None:
    """Every message has a label of its own; neighbours in one thread are one passage all the same."""
    thread = [
        hit("t#0", "one", document_id="t", anchor=Anchor("message", 1, 2, "p100")),
        hit("t#1", "two", document_id="t", ordinal=1, anchor=Anchor("message", 3, 4, "p300")),
    ]
    (merged,) = assemble(thread, 5)
    assert merged.anchor == Anchor("message", 1, 4, "p100")


def test_no_document_takes_more_than_its_share() -> None:
    """Three fragments of one document, then others; it fills up only what they leave."""
    loud = [hit(f"d#{n}", f"{'abcdefgh'[n] * 9} text", document_id="d", ordinal=2 * n) for n in range(6)]
    quiet = [hit("e", "another view"), hit("f", "a third view")]
    order = [each.hit.document_id for each in assemble([*loud, *quiet], 6)]
    assert order == ["d", "d", "d", "e", "f", "d"]
