"""Stages of ingest: one verb per file, free of Ray."""
