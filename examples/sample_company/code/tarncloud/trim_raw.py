"""Nightly job: delete raw readings that are older than the retention period, whole days, oldest first."""

import os
import time
from datetime import date, timedelta

# 400 until 30 April 2026. Decided in #platform on 22 April 2026, see finding AF-2026-07.
RAW_RETENTION_DAYS = int(os.environ.get("RAW_RETENTION_DAYS", "730"))
TIME_LIMIT_S = 20 * 60


def days_to_trim(today, oldest, held_customers):
    """Yield (day, customers on legal hold) from the oldest day on that has passed its retention."""
    last = today - timedelta(days=RAW_RETENTION_DAYS)
    day = oldest
    while day < last:
        yield day, held_customers
        day += timedelta(days=1)


def trim(store, today=None):
    """Trim until nothing is left to do or the time is over; what is left waits for the next night."""
    started = time.monotonic()
    for day, held in days_to_trim(today or date.today(), store.oldest_day(), store.legal_holds()):
        if time.monotonic() - started > TIME_LIMIT_S:
            return "time is over"
        store.delete_day(day, except_customers=held)
    return "done"
