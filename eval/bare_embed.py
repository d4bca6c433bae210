"""A bare loop over texts with the product's ONNX session, to measure against: `python -m eval.bare_embed FILE THREADS`.

Prints a line when its model is loaded, starts at a line on stdin, and prints the seconds it took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from cortex.settings import read_settings
from data_jobs.parts import build_models


def bare_seconds(texts: list[str], folder: Path, n_processes: int, n_threads: int) -> float:
    """Embed texts in processes that share them evenly, and start together; returns the seconds until the last ends."""
    by_length = sorted(texts, key=len)
    running = []
    for number in range(n_processes):
        path = folder / f"texts-{number}.json"
        path.write_text(json.dumps(by_length[number::n_processes]))
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "eval.bare_embed", str(path), str(n_threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for process in running:
        assert process.stdout is not None  # a pipe was asked for
        process.stdout.readline()
    said = [process.communicate()[0] for process in _started(running)]
    return max(map(float, said))


def _started(running: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for process in running:
        assert process.stdin is not None  # a pipe was asked for
        process.stdin.write("go\n")
        process.stdin.flush()
    return running


def main() -> None:
    """Embed the texts of a file once."""
    texts = json.loads(Path(sys.argv[1]).read_text())
    settings = read_settings().model_copy(update={"embedding_threads": int(sys.argv[2])})
    embedder = build_models(settings).embedder
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.monotonic()
    embedder.embed_documents(texts)
    print(time.monotonic() - started)


if __name__ == "__main__":
    main()
