"""Sentences of a passage, in any script."""

from __future__ import annotations

import pytest

from retrieval.sentences import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "Dr. Ada met J. Smith at 9 a.m. sharp. They left.",
            ["Dr. Ada met J. Smith at 9 a.m. sharp.", "They left."],
        ),
        ("It costs 3.50 euros. See v1.2.3 for more.", ["It costs 3.50 euros.", "See v1.2.3 for more."]),
        ("He said “Go.” Then he left.", ["He said “Go.”", "Then he left."]),
        ("期限は月末です。申請は経理へ。", ["期限は月末です。", "申請は経理へ。"]),
        ("彼は「行く。」と言った。終わり！", ["彼は「行く。」", "と言った。", "終わり！"]),
        ("Title\n\nBody text\nwraps here. End", ["Title", "Body text wraps here.", "End"]),
        ("- first\n- second\n1. third", ["first", "second", "third"]),
        ("Die Tür ist zu. Öffne sie.", ["Die Tür ist zu.", "Öffne sie."]),
        ("## Heading\n\n> quoted", ["Heading", "quoted"]),
        ("", []),
        (" \n \n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    """Ends are found by marks and layout; abbreviations, figures and list markers are no sentences."""
    assert sentences(text) == expected


def test_nothing_is_lost() -> None:
    """Every word of a passage is in exactly one sentence."""
    text = 'A. B c d! (Yes.) "No." e.g. this; etc. and U.S. law? 50% of it.\n\n- x\n- y'
    kept = " ".join(sentences(text)).replace("-", " ").split()
    assert kept == text.replace("-", " ").split()
