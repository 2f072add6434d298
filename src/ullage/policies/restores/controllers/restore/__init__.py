"""The kind SnapshotRestore."""
