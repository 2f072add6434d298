"""Snapshots that wait for hooks."""
