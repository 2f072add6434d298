"""Polls each running engine: writes the Engine's status, and keeps a Snapshot object for each of its snapshots."""
