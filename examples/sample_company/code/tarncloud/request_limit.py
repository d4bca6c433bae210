"""The API's request limit: a token bucket per key."""

import time

DEFAULT_PER_MINUTE = 120
BURST = 20
# Exceptions with the date on which they end; the nightly check fails when one is overdue.
EXCEPTIONS = {"meridian-qs": (300, "2026-11-30")}


class Bucket:
    """Holds up to BURST tokens and refills evenly."""

    def __init__(self, per_minute=DEFAULT_PER_MINUTE, clock=time.monotonic):
        self.per_second = per_minute / 60
        self.tokens = BURST
        self.clock = clock
        self.seen = clock()

    def take(self):
        """Take one token; return 0.0, or the seconds for the Retry-After header."""
        now = self.clock()
        self.tokens = min(BURST, self.tokens + (now - self.seen) * self.per_second)
        self.seen = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.per_second
