"""Parsers: the bytes of one file -> `ParsedBody`, one file per family of formats; they run in the child of `stages/parse.py`."""
