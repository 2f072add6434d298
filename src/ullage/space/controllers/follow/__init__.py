"""Keeps the stamps of objects true: sizes that a purge changes, who pays, and from whose accounts.

Pure: `model` (facts, what engines say, the order of writes) and `payers` (who pays for what).
"""
