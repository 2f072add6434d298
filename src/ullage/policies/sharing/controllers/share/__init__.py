"""Of SnapshotShares."""
