"""Controllers of PersistentVolumeClaims."""
