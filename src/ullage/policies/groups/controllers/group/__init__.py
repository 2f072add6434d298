"""Controllers of VolumeGroupSnapshots."""
