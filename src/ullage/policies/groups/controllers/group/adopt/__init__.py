"""Binds groups to group snapshots that were there already."""
