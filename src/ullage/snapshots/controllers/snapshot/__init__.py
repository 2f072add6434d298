"""Controllers of VolumeSnapshots."""
