"""Benchmarks: figures for a table, never assertions. Each runs by `python -m bench.<name>`."""
