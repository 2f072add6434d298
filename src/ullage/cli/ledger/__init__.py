"""`ullage ledger`: the commands, and how ledgers read in a terminal."""
