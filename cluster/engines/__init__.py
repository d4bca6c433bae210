"""Embedded engines: start, health, stop and URL, one file each."""
