"""Snapshots that make room for new ones."""
