"""Connectors: a source system in, documents out; one class with five verbs per source."""
