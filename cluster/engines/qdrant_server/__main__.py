"""Serve a folder of collections on loopback until a signal ends it; see the package for what it serves."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import uvicorn

from cluster.engines.qdrant_server.app import App
from cluster.engines.qdrant_server.store import AlreadyOwned, Store

# Up to here a scan of every permitted vector is exact and fast enough; building graphs costs minutes of two cores.
GRAPH_FROM_POINTS = 50_000
EXIT_OWNED = 5


def main() -> int:
    """Parse the arguments, open the folder and serve. The key, if any, comes from CORTEX_QDRANT_API_KEY."""
    parser = argparse.ArgumentParser(prog="python -m cluster.engines.qdrant_server", description=__doc__)
    parser.add_argument("--path", type=Path, required=True, help="folder of the collections")
    parser.add_argument("--port", type=int, required=True, help="loopback port")
    parser.add_argument(
        "--graph-from",
        type=int,
        default=GRAPH_FROM_POINTS,
        metavar="POINTS",
        help="build HNSW graphs in collections of at least this size (default: %(default)s)",
    )
    options = parser.parse_args()
    try:
        store = Store(options.path, options.graph_from)
    except AlreadyOwned as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_OWNED
    # The server hands its signal on once it has shut down; the shards are closed after that.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    app = App(store, os.environ.get("CORTEX_QDRANT_API_KEY", ""))
    try:
        uvicorn.run(
            app,
            host="127.0.0.1",
            port=options.port,
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
        )
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
