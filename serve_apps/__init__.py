"""Serve apps: the query path behind HTTP on Ray Serve."""
