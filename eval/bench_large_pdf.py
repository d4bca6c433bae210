"""One very long PDF end to end: `python -m eval.bench_large_pdf --pages 2000`.

It is loaded by `cortex ingest files` into a scratch home, in the running Ray. Printed as one JSON document: the seconds,
the chunks, and the most memory that the job's processes held together, each of them named.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from cortex.console import command, write_document
from cortex.errors import Corrupt
from eval.invented import write_pdf
from eval.processes import peak_of_job
from eval.scratch import SEARCH_ENGINES, run_cortex, scratch_home

_LOAD_TIMEOUT_S = 3 * 3_600.0
# A machine that does other work beside it must not make a failure of a long file.
_PARSE_TIMEOUT_S = "600"
_MIB = 1024 * 1024


def measure_large_pdf(n_pages: int) -> dict[str, Any]:
    """Load one PDF; raises Corrupt when it is not indexed."""
    os.environ["CORTEX_PARSE_TIMEOUT_S"] = _PARSE_TIMEOUT_S
    with TemporaryDirectory() as folder, scratch_home((*SEARCH_ENGINES, "ray")) as settings:
        path = Path(folder) / "large.pdf"
        write_pdf(path, n_pages, seed=1)
        with peak_of_job(settings) as peak:
            report = json.loads(run_cortex("ingest", "files", folder, "--json", timeout_s=_LOAD_TIMEOUT_S))
        if (report["indexed"], report["failed"]) != (1, []):
            raise Corrupt(f"the load is not whole: {str(report)[:400]}", code="scratch.failed")
        return {
            "n_pages": n_pages,
            "n_bytes": path.stat().st_size,
            "n_chunks": report["chunks"],
            "load_s": report["seconds"],
            "job_peak_mib": round(peak.n_bytes / _MIB),
            "peak_processes_mib": [(name, round(size / _MIB)) for name, size in peak.largest],
            "n_cores": os.cpu_count(),
        }


@click.command()
@click.option("--pages", "n_pages", default=2_000, show_default=True, type=click.IntRange(1))
@command
def main(n_pages: int) -> None:
    """Print one JSON document."""
    write_document(measure_large_pdf(n_pages))


if __name__ == "__main__":
    main()
