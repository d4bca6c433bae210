"""Brings the catalog's tables to this version; `cortex up` runs it before anything else uses Postgres."""

from __future__ import annotations

from adapters.catalog.migrate import MigrationReport
from adapters.catalog.migrate import migrate as migrate_database
from cortex.console import command, write_document
from cortex.errors import Misconfigured
from cortex.settings import Settings, settings


def migrate(settings: Settings, *, is_dry_run: bool = False) -> MigrationReport:
    """Apply the missing migrations to the configured catalog; raises Misconfigured when none is configured."""
    if not settings.postgres_url:
        raise Misconfigured(
            "no catalog runs here: CORTEX_POSTGRES_URL is empty", code="postgres.missing", hint="cortex up"
        )
    return migrate_database(settings.postgres_url, is_dry_run=is_dry_run)


@command
def main() -> None:
    """Migrate and print what was done."""
    write_document(migrate(settings()))


if __name__ == "__main__":
    main()
