"""Controllers of PersistentVolumes."""
