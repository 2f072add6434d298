"""`ullage schedule`: snapshots at set times, and which of them are kept."""
