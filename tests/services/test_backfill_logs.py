"""`cortex backfill logs` on a real catalog, while a job writes its record there."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.catalog.backfills import PostgresBackfills
from adapters.catalog.ingest import PostgresIngestCatalog
from cortex.ports.connectors import SourceConfig

pytestmark = [pytest.mark.services, pytest.mark.timeout(120)]
_NAME = "backfill-0123456789abcdef"
# More than a record keeps of its log; half of it is less.
_MANY = "".join(f'{{"n": {number}, "said": "{"x" * 100}"}}\n' for number in range(1_200))


@pytest.fixture
def record(catalog_url: str) -> PostgresBackfills:
    """The record of backfills, with one that runs."""
    source = SourceConfig("default", str(uuid.uuid4()), "files", "pages")
    catalog = PostgresIngestCatalog(catalog_url)
    catalog.ensure_source(source)
    catalog.close()
    made = PostgresBackfills(catalog_url)
    assert made.claim(_NAME, source.tenant_id, source.source_id, "127.0.0.1:1") == ""
    return made


@contextmanager
def logs(catalog_url: str, home: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`cortex backfill logs`, started, and ended if it does not end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
    with subprocess.Popen(
        [sys.executable, "-m", "clients.cli.main", "backfill", "logs", *options],
        env={**kept, "CORTEX_HOME": str(home), "CORTEX_POSTGRES_URL": catalog_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_following_prints_each_line_once_and_ends_with_the_backfill(
    record: PostgresBackfills, catalog_url: str, tmp_path: Path
) -> None:
    """Also when the record has forgotten its beginning meanwhile; what is logged last is not lost."""
    record.hear(_NAME, "first\n")
    with logs(catalog_url, tmp_path, _NAME, "--follow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "first\n"
        record.hear(_NAME, "second\n")
        assert process.stdout.readline() == "second\n"
        half = len(_MANY) // 2
        record.hear(_NAME, _MANY[:half])
        seen = process.stdout.read(half)
        record.hear(_NAME, _MANY[half:-200])
        record.hear(_NAME, _MANY[-200:])
        record.finish(_NAME, "succeeded")
        rest, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")
    (kept,) = record.listed("default", _NAME)
    assert len(kept.log) < len(_MANY)
    assert seen + rest == _MANY


def test_without_following_it_ends_at_once(
    record: PostgresBackfills, catalog_url: str, tmp_path: Path
) -> None:
    """What is there is printed, though the backfill still runs."""
    record.hear(_NAME, "first\n")
    with logs(catalog_url, tmp_path, _NAME) as process:
        assert process.communicate(timeout=30) == ("first\n", "")
    assert (process.returncode, record.listed("default", _NAME)[0].status) == (0, "running")


def test_a_backfill_that_is_lost_is_not_followed_for_ever(
    record: PostgresBackfills, catalog_url: str, tmp_path: Path
) -> None:
    """One that was not heard of for a minute prints what it had logged, and the command ends."""
    record.hear(_NAME, "first\n")
    with record._connection() as connection:
        connection.execute("UPDATE backfills SET heard_at = now() - interval '2 minutes'")
    with logs(catalog_url, tmp_path, _NAME, "--follow") as process:
        assert process.communicate(timeout=30) == ("first\n", "")
    assert process.returncode == 0


def test_an_unknown_backfill_is_an_error(record: PostgresBackfills, catalog_url: str, tmp_path: Path) -> None:
    """With its stable code, followed or not."""
    with logs(catalog_url, tmp_path, "backfill-none", "--follow") as process:
        assert "backfill.unknown" in process.communicate(timeout=30)[1]
    assert process.returncode == 4
