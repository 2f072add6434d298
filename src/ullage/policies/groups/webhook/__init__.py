"""Who may name hooks on a VolumeGroupSnapshot: those who may exec into pods."""
