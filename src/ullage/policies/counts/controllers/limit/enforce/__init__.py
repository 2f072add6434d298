"""Brings the limits on the number of snapshots into the ledger of their namespace."""
