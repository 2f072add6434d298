"""SnapshotLimits: brought into ledgers, and shown as they stand."""
