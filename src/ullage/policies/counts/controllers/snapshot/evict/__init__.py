"""Deletes the oldest snapshots of a namespace for those who wait for room there."""
