"""Workloads that nobody makes pods for: they say so."""
