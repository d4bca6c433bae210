"""The cross-encoder adapters, on a tiny real ONNX classifier."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from adapters.cross_encoder import OnnxCrossEncoder, SentenceCrossEncoder, open_reranker
from cortex.errors import Misconfigured
from cortex.settings import Settings
from tests.unit.adapters.tiny_onnx import WORDS, write_classifier

# [PAD] would weigh heavily if a batch's padding were not masked.
WEIGHTS = [50.0, 0.0, 0.5, 0.25, 1.0, 2.0, 4.0, 8.0, 0.0]


def expected(question: str, passage: str) -> float:
    """[CLS] question [SEP], then passage [SEP] at double weight."""
    weigh = dict(zip(WORDS, WEIGHTS, strict=True))
    first = sum(weigh.get(word, 0.0) for word in question.split())
    second = sum(weigh.get(word, 0.0) for word in passage.split())
    return 0.5 + first + 0.25 + 2 * (second + 0.25)


def test_pairs_are_scored_in_the_order_given(tmp_path: Path) -> None:
    """Question and passage reach the model as a pair, batches and padding change nothing."""
    write_classifier(tmp_path, WEIGHTS)
    passages = ["dog barks", "the cat", "cat " * 40, "", "dog", *["the dog sleeps"] * 20]
    scores = OnnxCrossEncoder(tmp_path).score("cat sleeps", passages)
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([expected("cat sleeps", passage) for passage in passages])


def test_two_classes_give_the_odds_of_the_relevant_one(tmp_path: Path) -> None:
    """With logits [irrelevant, relevant] the score is their difference: here the first class counts double."""
    write_classifier(tmp_path, WEIGHTS, n_classes=2)
    (score,) = OnnxCrossEncoder(tmp_path).score("cat", ["dog"])
    assert score == pytest.approx(-expected("cat", "dog"))


def test_more_classes_are_refused(tmp_path: Path) -> None:
    """A classifier of three classes is no reranker."""
    write_classifier(tmp_path, WEIGHTS, n_classes=3)
    with pytest.raises(Misconfigured) as caught:
        OnnxCrossEncoder(tmp_path).score("cat", ["dog"])
    assert caught.value.error_code == "model.invalid"


def test_long_pairs_are_cut_to_the_window(tmp_path: Path) -> None:
    """A passage past 512 tokens is scored on what the window holds."""
    write_classifier(tmp_path, WEIGHTS)
    (score,) = OnnxCrossEncoder(tmp_path).score("dog", ["cat " * 2_000])
    assert score == pytest.approx(expected("dog", "cat " * (512 - 4)))


def test_no_passages_give_no_scores(tmp_path: Path) -> None:
    """An empty list is scored without a run."""
    write_classifier(tmp_path, WEIGHTS)
    assert OnnxCrossEncoder(tmp_path).score("cat", []).shape == (0,)


def test_the_setting_names_a_folder_a_library_model_or_nothing(tmp_path: Path) -> None:
    """Empty: none. A folder with model.onnx: ONNX, named after the folder, its graph also in `onnx/`."""
    (tmp_path / "onnx").mkdir()
    write_classifier(tmp_path, WEIGHTS)
    (tmp_path / "model.onnx").rename(tmp_path / "onnx" / "model.onnx")
    assert open_reranker(Settings(rerank_model="")) is None
    opened = open_reranker(Settings(rerank_model=str(tmp_path)))
    assert isinstance(opened, OnnxCrossEncoder)
    assert opened.name == tmp_path.name


def test_without_the_library_a_hub_name_is_refused_with_a_way_out() -> None:
    """Where sentence-transformers is missing, the error names the extra that brings it."""
    if importlib.util.find_spec("sentence_transformers"):
        pytest.skip("sentence-transformers is installed")
    with pytest.raises(Misconfigured) as caught:
        SentenceCrossEncoder("someone/some-cross-encoder")
    assert ".[rerank]" in caught.value.hint
