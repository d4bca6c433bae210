"""What the job that asks a question runs: it fails unless an answer cites something, and logs nothing of it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cortex.api import AnswerResponse
from tests.unit.kuberay.rendered import found, rendered

QUESTION = 'What is "due" on $(date)?'
SECRET = "the report is due on Friday"


def run(folder: Path, document: dict[str, Any], exit_code: int) -> subprocess.CompletedProcess[str]:
    """Run the job's own command beside a `cortex` that prints this document, and python as the image has it."""
    script = (
        f"printf '%s\\n' \"$@\" > {folder}/asked; echo {shlex.quote(json.dumps(document))}; exit {exit_code}"
    )
    for name, text in (("cortex", script), ("python", f'exec {sys.executable} "$@"')):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (asks,) = found(rendered("ask"), "Job")["spec"]["template"]["spec"]["containers"]
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "QUESTION": QUESTION}
    return subprocess.run(asks["command"], env=env, capture_output=True, text=True, timeout=30)


def answer(n_citations: int, *, abstained: bool) -> dict[str, Any]:
    assert {"answer", "citations", "abstained"} <= set(AnswerResponse.model_fields)
    return {
        "answer": SECRET,
        "citations": [{"number": n} for n in range(n_citations)],
        "abstained": abstained,
    }


def test_an_answer_with_citations_succeeds(tmp_path: Path) -> None:
    """The question goes out as it is, and the log says how many citations came back, not what was answered."""
    ended = run(tmp_path, answer(2, abstained=False), 0)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2 citations\n", "")
    assert (tmp_path / "asked").read_text().splitlines() == ["ask", QUESTION, "--json"]


@pytest.mark.parametrize(
    "document", [answer(0, abstained=True), answer(0, abstained=False), answer(1, abstained=True)]
)
def test_an_answer_without_evidence_fails(tmp_path: Path, document: dict[str, Any]) -> None:
    """An abstention says that what was loaded cannot be found, whatever came with it."""
    ended = run(tmp_path, document, 0)
    assert ended.returncode != 0 and SECRET not in ended.stdout + ended.stderr


def test_an_error_fails_and_is_named(tmp_path: Path) -> None:
    """What `cortex ask` says is wrong stands in the job's log."""
    message = "Cortex is not running at http://cortex-serve-svc:8000"
    ended = run(tmp_path, {"error": {"code": "server.unreachable", "message": message}}, 7)
    assert ended.returncode != 0 and ended.stderr == f"{message}\n"
