"""Opens the embedding model, its files' SHA-256 checked, and says which it is; `cortex doctor` runs it."""

from __future__ import annotations

from adapters.onnx_embedder import OnnxEmbedder
from cortex.console import command, write_document
from cortex.settings import settings


@command
def main(as_json: bool = True) -> None:
    """Print the model's version and dimension."""
    embedder = OnnxEmbedder.from_settings(settings())
    write_document({"version": embedder.version, "dimension": embedder.dimension})


if __name__ == "__main__":
    main(as_json=True)
