"""Eval: golden sets, metrics, gates, benchmarks and the red team."""
