"""Ports: where parts meet. Ingest ports are synchronous, query ports asynchronous; nothing is offered in both.

Every method raises only `CortexError`s. A port's twin for unit tests lives in `tests/twins/` and passes the same
contract suite as the real adapter.
"""
