"""Retrieval: a question in, evidence out, as functions of ports. Read `retrieval/path.py` first."""
