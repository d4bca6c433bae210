"""A text model in ONNX: its graph and tokenizer, run over length-sorted batches whose composition cannot move a result."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as failures
from tokenizers import Encoding, Tokenizer

from cortex.errors import InputError, Misconfigured
from cortex.ids import sha256_hex
from cortex.telemetry import event

# With activations quantised per batch, a text's vector would depend on its neighbours: such graphs run one by one.
_BATCH_DEPENDENT = b"DynamicQuantizeLinear"
# Tokens with padding in one run. What a graph computes for more of them leaves the processor's cache: twice the memory
# for nothing, it is not even faster.
_MOST_TOKENS = 256
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# A GPU computes what it is given at once, and waits for its next orders longer than it computes for a few texts.
_GPU_BATCH_SIZE = 64
_GPU_MOST_TOKENS = 16_384
# Several processes share a GPU, so none takes twice what it needs; and products keep all digits of their float32 factors,
# as on the CPU, because vectors of both are compared. By default the runtime does neither.
_CUDA_OPTIONS = {"arena_extend_strategy": "kSameAsRequested", "use_tf32": "0"}
# What the runtime raises for a file that is no model it can run; they share no base class of their own.
_BAD_MODEL = (
    failures.Fail,
    failures.InvalidArgument,
    failures.InvalidGraph,
    failures.InvalidProtobuf,
    failures.NoModel,
    failures.NoSuchFile,
    failures.NotImplemented,
    failures.RuntimeException,
)


@dataclass(frozen=True, slots=True)
class OutputBatch:
    """What one run gives: `rows` are the positions of its texts, `output` is float32[n, …], `mask` is int64[n, length]."""

    rows: tuple[int, ...]
    output: NDArray[np.float32]
    mask: NDArray[np.int64]


@lru_cache(maxsize=16)
def file_sha256(path: Path) -> str:
    """Hash a model file once per process; raises Misconfigured when it is not there."""
    try:
        return sha256_hex(path.read_bytes())
    except OSError as error:
        raise Misconfigured(
            f"model file {path.name} cannot be read: {type(error).__name__}",
            code="model.missing",
            hint="a model folder holds model.onnx and tokenizer.json",
        ) from error


class OnnxTokenizer:
    """The tokenizer of a model, without its graph. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = _load_tokenizer(path)

    def count_tokens(self, text: str) -> int:
        """Count tokens without truncation and without special tokens."""
        (encoding,) = self._tokenizer.encode_batch_fast([_clean(text)], add_special_tokens=False)
        return len(encoding)


class OnnxText:
    """One ONNX graph with its tokenizer. Thread-safe; `max_tokens` truncates, special tokens included."""

    def __init__(
        self,
        graph: Path,
        tokenizer: Path,
        *,
        max_tokens: int,
        batch_size: int,
        threads: int,
        on_gpu: bool = False,
    ) -> None:
        self._truncating = _load_tokenizer(tokenizer)
        self._truncating.enable_truncation(max_tokens)
        self._session = _open_session(graph, threads, on_gpu)
        self.is_on_gpu = _CUDA in self._session.get_providers()
        self._inputs = {node.name for node in self._session.get_inputs()}
        self._output = _pick_output([node.name for node in self._session.get_outputs()])
        self._most_tokens = _GPU_MOST_TOKENS if self.is_on_gpu else _MOST_TOKENS
        self._most_rows = max(batch_size, _GPU_BATCH_SIZE) if self.is_on_gpu else batch_size
        if _BATCH_DEPENDENT in graph.read_bytes():
            self._most_rows = 1

    def run(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Iterator[OutputBatch]:
        """Run texts, or pairs of texts, shortest first, so that little is padded."""
        # `fast` leaves out where in the text each token lies: half of the work.
        encodings = self._truncating.encode_batch_fast(
            [_clean(text) if isinstance(text, str) else (_clean(text[0]), _clean(text[1])) for text in texts]
        )
        order = sorted(range(len(encodings)), key=lambda row: len(encodings[row].ids))
        lengths = [len(encoding.ids) for encoding in encodings]
        for rows in _batches(order, lengths, self._most_rows, self._most_tokens):
            yield self._run_batch(rows, [encodings[row] for row in rows])

    def _run_batch(self, rows: list[int], encodings: list[Encoding]) -> OutputBatch:
        length = max(len(encoding.ids) for encoding in encodings)
        ids, mask, types = (np.zeros((len(rows), length), np.int64) for _ in range(3))
        for row, encoding in enumerate(encodings):
            n = len(encoding.ids)
            ids[row, :n], mask[row, :n], types[row, :n] = encoding.ids, 1, encoding.type_ids
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        feed = {name: array for name, array in feed.items() if name in self._inputs}
        (output,) = self._session.run([self._output], feed)
        return OutputBatch(tuple(rows), output, mask)


def _batches(order: list[int], lengths: list[int], most_rows: int, most_tokens: int) -> Iterator[list[int]]:
    """Cut rows, shortest first, into batches of so many rows and of so many tokens with padding; a row alone always fits."""
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) == most_rows or (len(batch) + 1) * lengths[row] > most_tokens):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _clean(text: str) -> str:
    """Refuse what is no text: a lone surrogate cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError("text holds a lone surrogate", code="text.invalid") from error
    return text


def _load_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        if type(error) is not Exception:  # the library raises bare ones, and no others, for a bad file
            raise
        raise Misconfigured(f"{path.name} is not a tokenizer", code="model.invalid") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def can_use_gpus() -> bool:
    """Say whether this onnxruntime is the build for NVIDIA's GPUs; whether their libraries load, only a session shows."""
    return _CUDA in onnxruntime.get_available_providers()


def _open_session(graph: Path, threads: int, on_gpu: bool) -> onnxruntime.InferenceSession:
    """Open a graph on the first GPU that the process sees, if it may and can, else on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # A pattern is kept for each shape that ever came, and shapes are as many as lengths: hundreds of MB, for 4 % of speed.
    options.enable_mem_pattern = False
    providers = [(_CUDA, _CUDA_OPTIONS), _CPU] if on_gpu and can_use_gpus() else [_CPU]
    try:
        session = onnxruntime.InferenceSession(str(graph), options, providers=providers)
    except _BAD_MODEL as error:
        raise Misconfigured(f"{graph.name} is not an ONNX model", code="model.invalid") from error
    if on_gpu and _CUDA not in session.get_providers():
        event("model.without_gpu", level=logging.WARNING, graph=graph.name, is_gpu_build=can_use_gpus())
    known = {"input_ids", "attention_mask", "token_type_ids"}
    if unknown := {node.name for node in session.get_inputs()} - known:
        raise Misconfigured(
            f"{graph.name} wants inputs that no tokenizer gives: {sorted(unknown)}",
            code="model.invalid",
            hint="export it with input_ids, attention_mask and, if used, token_type_ids",
        )
    return session


def _pick_output(names: list[str]) -> str:
    return "sentence_embedding" if "sentence_embedding" in names else names[0]
