"""`ullage ledger`."""
