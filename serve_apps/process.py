"""How every process of the query side begins: its settings, its log, its traces."""

from __future__ import annotations

import os
import sys

from cortex.settings import Settings, read_settings
from cortex.telemetry import setup_logging
from serve_apps.tracing import setup_tracing


def settings_of(home: str) -> Settings:
    """Read the settings of a home, or those of this process's environment when none is named."""
    if home:
        os.environ["CORTEX_HOME"] = home
    return read_settings()


def begin(home: str, name: str) -> Settings:
    """Read the settings, and set up events and traces by them; `name` says on its spans which process it is."""
    settings = settings_of(home)
    # In the staged placement Serve puts a log of its own, which drops events, in the place of sys.stderr.
    setup_logging(settings.log_level, sys.__stderr__)
    setup_tracing(settings, name)
    return settings
