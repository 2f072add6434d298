"""Binds each VolumeSnapshot to its record, and copies the record's state to it."""
