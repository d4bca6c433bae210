"""How texts are put together for one run of a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adapters.onnx_text import OnnxText
from tests.unit.adapters.tiny_onnx import WORDS, write_encoder


def test_a_run_holds_few_rows_and_few_tokens(tmp_path: Path) -> None:
    """At most `batch_size` rows and 256 tokens with padding go into one run, a longer text alone; each text goes once."""
    write_encoder(tmp_path, np.zeros((len(WORDS), 2), np.float32))
    model = OnnxText(
        tmp_path / "model.onnx", tmp_path / "tokenizer.json", max_tokens=512, batch_size=8, threads=1
    )
    texts = ["cat " * n for n in (400, *range(1, 120), *([5] * 30))]
    batches = list(model.run(texts))
    sizes = [batch.mask.shape for batch in batches]
    assert sorted(row for batch in batches for row in batch.rows) == list(range(len(texts)))
    assert max(n_rows for n_rows, _ in sizes) == 8
    assert [n_rows * length for n_rows, length in sizes if n_rows * length > 256] == [402]
    # No batch could have taken the first text of the next.
    assert all(
        n_rows == 8 or (n_rows + 1) * int(after.mask.sum(axis=1)[0]) > 256
        for (n_rows, _), after in zip(sizes, batches[1:], strict=False)
    )
