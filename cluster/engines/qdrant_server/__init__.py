"""The embedded vector index: one owner of Qdrant's segment engine (qdrant-edge), behind a subset of Qdrant's REST API.

The ordinary Qdrant client works against it from any number of processes. What the subset lacks answers 501 and names
itself; nothing that a request asks for is silently ignored. Run it with
`python -m cluster.engines.qdrant_server --path DIR --port P`.
"""
