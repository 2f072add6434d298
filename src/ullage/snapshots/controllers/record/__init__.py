"""Controllers of records: VolumeSnapshotContent and VolumeSnapshotData."""
