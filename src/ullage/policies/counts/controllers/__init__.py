"""limit_enforce, limit_status: SnapshotLimits. snapshot_evict: deletes the oldest snapshots that a limit lets go."""
