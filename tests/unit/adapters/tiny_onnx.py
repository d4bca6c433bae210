"""Tiny ONNX text models, written byte by byte (Protocol Buffers wire format), with a tokenizer of a few words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog", "sleeps", "barks", "the"]
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_INT64, _FLOAT = 7, 1


def write_classifier(folder: Path, weights: Sequence[float], n_classes: int = 1) -> None:
    """Write a cross-encoder: the sum over tokens of weights[id] * mask * (1 + type), the same for each class."""
    nodes = [
        _node("Gather", ["weights", "input_ids"], "weighed"),
        _node("Cast", ["attention_mask"], "mask", _attribute_int("to", _FLOAT)),
        _node("Cast", ["token_type_ids"], "types", _attribute_int("to", _FLOAT)),
        _node("Add", ["types", "one"], "factors"),
        _node("Mul", ["weighed", "mask"], "masked"),
        _node("Mul", ["masked", "factors"], "summands"),
        _node("ReduceSum", ["summands", "axis"], "sums"),
        _node("MatMul", ["sums", "classes"], "logits"),
    ]
    tensors = [
        _tensor("weights", np.asarray(weights, np.float32)),
        _tensor("one", np.ones(1, np.float32)),
        _tensor("axis", np.ones(1, np.int64)),
        _tensor("classes", np.arange(n_classes, 0, -1, np.float32).reshape(1, n_classes)),
    ]
    _write(folder, nodes, tensors, ("logits", [0, n_classes]))


def write_encoder(folder: Path, table: np.ndarray) -> None:
    """Write an encoder without layers: the hidden state of a token is its row of float32[words, d]."""
    nodes = [_node("Gather", ["table", "input_ids"], "last_hidden_state")]
    tensors = [_tensor("table", np.asarray(table, np.float32))]
    _write(folder, nodes, tensors, ("last_hidden_state", [0, 0, table.shape[1]]))


def _write(folder: Path, nodes: list[bytes], tensors: list[bytes], output: tuple[str, list[int]]) -> None:
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"tiny")
    graph += b"".join(_field(5, tensor) for tensor in tensors)
    graph += b"".join(_field(11, _value(name, _INT64, [0, 0])) for name in INPUTS)
    graph += _field(12, _value(output[0], _FLOAT, output[1]))
    opset = _field(1, b"") + _number(2, 13)
    (folder / "model.onnx").write_bytes(_number(1, 8) + _field(7, graph) + _field(8, opset))
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def _node(kind: str, inputs: list[str], output: str, attribute: bytes = b"") -> bytes:
    node = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    return node + _field(4, kind.encode()) + (_field(5, attribute) if attribute else b"")


def _attribute_int(name: str, value: int) -> bytes:
    return _field(1, name.encode()) + _number(3, value) + _number(20, 2)


def _tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    kind = _FLOAT if array.dtype == np.float32 else _INT64
    return dims + _number(2, kind) + _field(8, name.encode()) + _field(9, array.tobytes())


def _value(name: str, kind: int, dims: list[int]) -> bytes:
    """Declare an input or output; a dimension of 0 is free."""
    shape = b"".join(
        _field(1, _number(1, size) if size else _field(2, b"n%d" % at)) for at, size in enumerate(dims)
    )
    tensor = _number(1, kind) + _field(2, shape)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)
