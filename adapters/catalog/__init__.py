"""The catalog in Postgres: sources, documents, permissions, the outbox and the record of answers."""
