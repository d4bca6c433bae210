"""Child program: optimize one copy of a collection. The engine holds the interpreter while it works, so it works here."""

from __future__ import annotations

import json
import os
import sys

import qdrant_edge as edge

from cluster.engines.qdrant_server.schema import read_collection


def main() -> None:
    """Merge, vacuum and index the shard at argv[1]; stdin holds `body` and `graph` as `read_collection` takes them."""
    os.nice(10)  # searches in the owner come first
    shard = edge.EdgeShard.load(sys.argv[1], read_collection(**json.load(sys.stdin)))
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    main()
