"""Adapters: one file per outside system, each an implementation of a port in `cortex/ports/`."""
