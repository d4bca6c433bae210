"""Signatures of near-duplicates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_jobs.stages.group import N_HASHES, signature


def similarity(one: str, other: str) -> float:
    rows = [np.frombuffer(signature(text), "<u4") for text in (one, other)]
    return float(np.mean(rows[0] == rows[1]))


def numbered(n: int, changed: int = 0) -> str:
    """A text of n distinct words of which the last `changed` differ from those of the unchanged one."""
    return " ".join(f"word{number}" if number < n - changed else f"other{number}" for number in range(n))


@given(st.text())
def test_equal_bodies_have_equal_signatures(text: str) -> None:
    """A signature has 64 unsigned 32-bit numbers, depends on the words alone, and is empty without any."""
    assert signature(text) == signature(f" {text}\n\n")
    assert len(signature(text)) in (0, 4 * N_HASHES)


@pytest.mark.parametrize(("changed", "expected"), [(0, 1.0), (20, 0.904), (80, 0.672), (1000, 0.0)])
def test_the_share_of_equal_hashes_estimates_the_jaccard_similarity(changed: int, expected: float) -> None:
    """The estimate lies within three standard errors of the exact share of common shingles."""
    error = 3 * (expected * (1 - expected) / N_HASHES) ** 0.5
    assert abs(similarity(numbered(400), numbered(400, changed)) - expected) <= error


def test_chinese_and_japanese_are_compared_by_characters() -> None:
    """Texts without spaces are near-duplicates when most of their characters stand in the same order."""
    text = "".join(chr(0x4E00 + number) for number in range(300))
    assert similarity(text, text[:-6] + "あいうえおか") > 0.85
    assert similarity(text, text[::-1]) == 0.0


def test_a_long_text_is_hashed_in_pieces() -> None:
    """A text of many batches still resembles itself with one word changed."""
    assert similarity(numbered(40_000), numbered(40_000, 1)) > 0.9


def test_a_text_without_words_is_like_no_other() -> None:
    """Punctuation alone has no signature."""
    assert signature("... --- !!!") == b""
