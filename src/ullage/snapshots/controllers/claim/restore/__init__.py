"""Fills claims from snapshots."""
