"""An upgrade rehearsed: what an older Cortex wrote is restored, or found in the home, and then serves.

`tests/fixtures/backups/catalog_0006` was written by the `cortex backup` of the version whose newest migration was
0006: a folder in which ana is in engineering and bo, of the staff, is denied the queue, and a vault in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from adapters.catalog.audit import read_audit
from adapters.catalog.dump import fill
from adapters.catalog.migrate import read_migrations
from cortex.settings import Settings
from data_jobs.backup_files import read_manifest
from data_jobs.consistency.check import check
from tests.services.asking import search, token
from tests.services.homes import ScratchHome

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),  # loopback
]
OLD = Path(__file__).parent.parent / "fixtures" / "backups" / "catalog_0006"
KNOWN = [migration.name for migration in read_migrations()]
ANA, BO, CY = "ana@acme.example", "bo@acme.example", "cy@acme.example"


def require_served(settings: Settings) -> None:
    """Each person finds what the old version's lists say, nobody else anything, and all stores agree."""
    everyone = [token(settings, name) for name in (ANA, BO, CY)]
    assert search(settings, "When does the message queue drop events?", *everyone) == [
        (200, ["Canteen", "Lunch", "Lunch", "Message queue", "today.md", "today.md"]),
        (200, ["Canteen"]),
        (403, "user.unknown"),
    ]
    report = check(settings)
    assert (report.differences, report.counted["points"]) == ((), 6)


def migrations(settings: Settings) -> list[str]:
    with psycopg.connect(settings.postgres_url) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM schema_migrations ORDER BY number")]


def restored(home: ScratchHome) -> Settings:
    """Restore the old backup and start the engines."""
    ran = home.cortex("restore", str(OLD))
    assert (ran.code, ran.document["points"], ran.document["mended"]) == (0, 6, []), ran.document
    home.up("postgres", "qdrant", "spicedb")
    return home.settings()


def test_a_backup_of_an_older_version_is_restored_and_serves(new_home: Callable[..., ScratchHome]) -> None:
    """`cortex restore` brings it to this version; after `cortex up` each person finds what they found before."""
    settings = restored(new_home())
    assert len(read_manifest(OLD).dump.migrations) < len(KNOWN)
    assert migrations(settings) == KNOWN
    require_served(settings)
    (event,) = read_audit(settings.postgres_url, settings.tenant_id)
    assert (event.action, event.fields["taken_at"][:10]) == ("home.restore", "2026-11-30")


@pytest.mark.slow
def test_a_home_that_an_older_version_left_is_brought_up_and_serves(
    new_home: Callable[..., ScratchHome],
) -> None:
    """`cortex up` does the same to a catalog as the older version left it, in place."""
    home = new_home()
    settings, dump = restored(home), read_manifest(OLD).dump
    with psycopg.connect(settings.postgres_url, autocommit=True) as connection:
        connection.execute("TRUNCATE tenants CASCADE")
    fill(settings.postgres_url, OLD / "catalog", dump)
    assert migrations(settings) == list(dump.migrations)
    home.down()
    home.up("postgres", "qdrant", "spicedb")
    settings = home.settings()
    assert migrations(settings) == KNOWN
    require_served(settings)
