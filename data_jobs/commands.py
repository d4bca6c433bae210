"""The commands that this folder offers to `cortex`; each lives in a file of its own."""

from data_jobs.access_commands import access
from data_jobs.backfill_commands import backfill
from data_jobs.backup_commands import backup
from data_jobs.ingest_commands import ingest
from data_jobs.migrate_commands import migrate
from data_jobs.sources_commands import sources

__all__ = ["access", "backfill", "backup", "ingest", "migrate", "sources"]
