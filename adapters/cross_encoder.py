"""Cross-encoders that read question and passage together: an ONNX folder, or a model of sentence-transformers."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.onnx_text import OnnxText
from cortex.errors import Misconfigured
from cortex.ports.models import Reranker
from cortex.settings import Settings

_MAX_TOKENS = 512  # what the usual cross-encoders were trained with; question and passage together
_BATCH_SIZE = 8


def open_reranker(settings: Settings) -> Reranker | None:
    """Open what `CORTEX_RERANK_MODEL` names, if anything: a folder with model.onnx, else a sentence-transformers model."""
    name = settings.rerank_model
    if not name:
        return None
    folder = Path(name).expanduser()
    if (folder / "model.onnx").exists() or (folder / "onnx" / "model.onnx").exists():
        return OnnxCrossEncoder(folder, threads=settings.embedding_threads)
    return SentenceCrossEncoder(name)


class OnnxCrossEncoder:
    """A Reranker over an exported sequence classifier: model.onnx (or onnx/model.onnx) and tokenizer.json."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        graph = folder / "model.onnx"
        self.name = folder.resolve().name
        self._model = OnnxText(
            graph if graph.exists() else folder / "onnx" / "model.onnx",
            folder / "tokenizer.json",
            max_tokens=_MAX_TOKENS,
            batch_size=_BATCH_SIZE,
            threads=threads,
        )

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], the logit of relevance, higher is better; raises Misconfigured for other graphs."""
        scores = np.zeros(len(passages), np.float32)
        for batch in self._model.run([(question, passage) for passage in passages]):
            scores[list(batch.rows)] = _relevance(batch.output)
        return scores


class SentenceCrossEncoder:
    """A Reranker of sentence-transformers (extra `rerank`): a local folder, or a hub id where the hub is reachable."""

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            library = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise Misconfigured(
                "CORTEX_RERANK_MODEL is no folder with model.onnx, and sentence-transformers is not installed",
                code="model.missing",
                hint="give an ONNX folder, or install the extra: pip install -e '.[rerank]'",
            ) from error
        try:
            self._model: Any = library.CrossEncoder(name, max_length=_MAX_TOKENS, device="cpu")
        except (OSError, ValueError) as error:
            raise Misconfigured(
                f"the cross-encoder {name} cannot be loaded: {type(error).__name__}", code="model.missing"
            ) from error

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], higher is better."""
        pairs = [(question, passage) for passage in passages]
        scores: NDArray[np.float32] = np.asarray(
            self._model.predict(pairs, batch_size=_BATCH_SIZE, show_progress_bar=False), np.float32
        )
        return scores.reshape(len(passages), -1)[:, -1]


def _relevance(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Take the score of float32[n, 1], or the odds of float32[n, 2] with the relevant class last."""
    if logits.ndim == 2 and logits.shape[1] == 1:
        return logits[:, 0]
    if logits.ndim == 2 and logits.shape[1] == 2:
        odds: NDArray[np.float32] = logits[:, 1] - logits[:, 0]
        return odds
    raise Misconfigured(
        f"the cross-encoder gives an output of shape {logits.shape}, not one or two classes",
        code="model.invalid",
    )
