"""Fills claims from snapshots: the driver makes the volume, and its PersistentVolume is written.

`rules` says what is next for a claim; `eligibility` whether it may have the snapshot's data; `persistent_volume` what is
written; `triggers` what wakes a claim that waits.
"""
