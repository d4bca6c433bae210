"""Permissions in SpiceDB: the schema, the writer that ingest and the relay use, and the checker that questions use."""
