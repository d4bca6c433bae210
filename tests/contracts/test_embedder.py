"""What every Embedder promises, on the twin and on the built-in model."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.onnx_embedder import OnnxEmbedder
from cortex.ports.models import Embedder
from cortex.settings import Settings
from tests.twins.embedder import HashingEmbedder

TEXTS = [
    "The cat sleeps.",
    "",
    "Deploys are frozen on Fridays " * 60,
    "請求書の締め切り",
    "x",
    "The cat sleeps.",
]


@pytest.fixture(scope="module", params=["twin", "onnx"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return HashingEmbedder() if request.param == "twin" else OnnxEmbedder.from_settings(Settings())


def test_rows_are_unit_float32_in_the_order_given(embedder: Embedder) -> None:
    """Vectors are float32[n, d] of norm 1, and equal texts get equal vectors wherever they stand."""
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors[0], vectors[-1])


def test_a_vector_does_not_depend_on_its_batch(embedder: Embedder) -> None:
    """A text alone and the same text among others give the same bits, so a second run changes nothing."""
    together = embedder.embed_documents(TEXTS)
    alone = np.vstack([embedder.embed_documents([text]) for text in TEXTS])
    assert np.array_equal(together, alone)


def test_nothing_in_gives_nothing_out(embedder: Embedder) -> None:
    """An empty list embeds to float32[0, d]."""
    assert embedder.embed_queries([]).shape == (0, embedder.dimension)


def test_related_texts_are_nearer_than_unrelated_ones(embedder: Embedder) -> None:
    """A question is nearer to the passage that shares its subject."""
    (query,) = embedder.embed_queries(["when are deploys frozen"])
    near, far = embedder.embed_documents(["Deploys are frozen on Fridays.", "The cat sleeps on the sofa."])
    assert query @ near > query @ far


def test_tokens_are_counted_without_truncation(embedder: Embedder) -> None:
    """A text far beyond the model's window counts whole."""
    assert embedder.count_tokens("word " * 5_000) == 5_000
