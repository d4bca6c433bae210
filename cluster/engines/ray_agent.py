"""The node agent of a Ray head without a dashboard: says that it offers nothing, and lives as long as its raylet.

Ray's own agent imports Ray and a dozen modules to say the same: 4 to 8 processor-seconds before the raylet may start,
which gives up after 15 seconds. Only the standard library is imported here.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# The raylet waits for these files in its session's folder; -1 means that a service is not offered.
_OFFERS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_NOT_OFFERED = "-1"


def main() -> None:
    """Write the files, then wait for the raylet to close its end of the pipe."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--node-id", required=True)
    parser.add_argument("--session-dir", required=True, type=Path)
    given, _ = parser.parse_known_args()
    for name in _OFFERS:
        _write_whole(given.session_dir / f"{name}_{given.node_id}", _NOT_OFFERED)
    while os.read(sys.stdin.fileno(), 4096):
        pass


def _write_whole(path: Path, text: str) -> None:
    """Write a file that its reader sees either not at all or whole."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)


if __name__ == "__main__":
    main()
