"""Controllers of VolumeGroupSnapshotContents."""
