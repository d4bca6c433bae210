"""What a permission check costs by the number of documents: `python -m eval.bench_checks --documents 500,50000,200000`.

An embedded SpiceDB of its own is filled through the ordinary writer and asked through the ordinary checker, in bulks of
50, as 10,000 people in 2,000 nested groups (100,000 memberships; a tenth of the access profiles also lets everyone in).
Printed for each size: milliseconds of processor and of wall time per bulk, seconds of processor and MiB of memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from statistics import mean, median
from typing import Any

import click
import psutil

from adapters.spicedb.checker import SpiceDBChecker
from adapters.spicedb.writer import MOST_CHANGES, SpiceDBWriter
from cortex.errors import Unavailable
from cortex.ids import document_id, tenant_object_id
from cortex.ports.outbox import Relationship
from cortex.principals import Principal

_TENANT = "bench"
_BULK = 50
_START_S = 60.0
_MIB = 1024 * 1024


def tuples(n_documents: int, n_profiles: int, n_users: int, n_edges: int) -> Iterator[Relationship]:
    """Make a company: a tree of groups six wide, people spread over it, profiles of one to three groups, documents."""
    dice = random.Random(1)  # noqa: S311 - a test company, no secret
    n_groups = max(2, n_users // 5)
    for number in range(1, n_groups):
        yield _tuple("group", f"g{(number - 1) // 6}", "member", "group", f"g{number}")
    for number in range(n_edges):
        group = n_groups - 1 - int(dice.random() ** 2 * n_groups)
        yield _tuple("group", f"g{group}", "member", "user", f"u{number % n_users}")
    for number in range(n_users):
        yield _tuple("group", "", "member", "user", f"u{number}")
    for number in range(n_profiles):
        for group in dice.sample(range(n_groups), dice.choice((1, 1, 2, 3))):
            yield _tuple("profile", str(number), "viewer", "group", f"g{group}")
        if number % 10 == 0:
            yield _tuple("profile", str(number), "viewer", "group", "")
        if number % 50 == 0:
            yield _tuple("profile", str(number), "denied", "user", f"u{dice.randrange(n_users)}")
    for number in range(n_documents):
        yield _tuple("document", _document(number), "access", "profile", str(number % n_profiles))


def _tuple(resource_type: str, name: str, relation: str, subject_type: str, subject: str) -> Relationship:
    return Relationship(
        resource_type,
        tenant_object_id(_TENANT, name),
        relation,
        subject_type,
        tenant_object_id(_TENANT, subject),
        "member" if subject_type == "group" else "",
    )


def _document(number: int) -> str:
    return document_id(_TENANT, "bench", str(number))


@contextmanager
def spicedb() -> Iterator[tuple[str, str, psutil.Process]]:
    """Start an embedded SpiceDB on a free port; yields its address, its token and its process."""
    token = secrets.token_hex(16)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="cortex-eval-") as home:
        started = subprocess.Popen(
            [sys.executable, "-m", "cluster.engines.spicedb_server", "--port", str(port)],
            env={**os.environ, "CORTEX_HOME": home, "CORTEX_SPICEDB_TOKEN": token},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await(port)
            yield f"127.0.0.1:{port}", token, psutil.Process(started.pid)
        finally:
            started.terminate()
            started.wait(timeout=30)


def _await(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise Unavailable("SpiceDB does not start", code="scratch.failed")


def measure(n_documents: int, n_profiles: int, n_users: int, n_edges: int, rounds: int) -> dict[str, Any]:
    """Fill an engine, then check random bulks as random people."""
    with spicedb() as (url, token, process):
        writer = SpiceDBWriter(url, token)
        cpu_s = _cpu_s(process)
        started = time.monotonic()
        newest = writer.write_schema()
        schema_s = time.monotonic() - started
        n_tuples = 0
        rows = tuples(n_documents, n_profiles, n_users, n_edges)
        while batch := list(islice(rows, MOST_CHANGES)):
            distinct = list(dict.fromkeys(batch))
            newest = writer.apply(distinct, [])
            n_tuples += len(distinct)
        writer.open_for_checks()
        writer.close()
        load_s = _cpu_s(process) - cpu_s
        checks = asyncio.run(_check(url, token, newest, process, n_documents, n_users, rounds))
        return {
            "documents": n_documents,
            "tuples": n_tuples,
            "schema_s": round(schema_s, 3),
            "load_cpu_s_per_million": round(load_s / n_tuples * 1_000_000, 1),
            "memory_mib": round(process.memory_info().rss / _MIB),
            **checks,
        }


async def _check(
    url: str, token: str, newest: str, process: psutil.Process, n_documents: int, n_users: int, rounds: int
) -> dict[str, float]:
    dice = random.Random(2)  # noqa: S311
    checker = SpiceDBChecker(url, token)
    cpu_ms, wall_ms, n_allowed = [], [], 0
    for _ in range(rounds):
        names = [_document(number) for number in dice.sample(range(n_documents), _BULK)]
        person = Principal(_TENANT, f"u{dice.randrange(n_users)}")
        cpu_s, started = _cpu_s(process), time.monotonic()
        n_allowed += len(await checker.allowed(person, names, newest))
        wall_ms.append((time.monotonic() - started) * 1_000)
        cpu_ms.append((_cpu_s(process) - cpu_s) * 1_000)
    await checker.close()
    return {
        "bulk_cpu_ms": round(mean(cpu_ms), 1),
        "bulk_wall_ms_median": round(median(wall_ms), 1),
        "bulk_wall_ms_max": round(max(wall_ms), 1),
        "allowed_share": round(n_allowed / rounds / _BULK, 3),
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@click.command()
@click.option("--documents", default="500,50000,200000", show_default=True, help="Sizes to measure.")
@click.option("--profiles", default=2_000, show_default=True, help="Distinct access lists.")
@click.option("--users", default=10_000, show_default=True, help="People; five of them for each group.")
@click.option("--edges", default=100_000, show_default=True, help="Memberships of people in groups.")
@click.option("--rounds", default=40, show_default=True, help="Bulks of 50 for each size.")
def main(documents: str, profiles: int, users: int, edges: int, rounds: int) -> None:
    """Print one JSON line for each number of documents."""
    for size in documents.split(","):
        print(json.dumps(measure(int(size), min(profiles, int(size)), users, edges, rounds)), flush=True)


if __name__ == "__main__":
    main()
