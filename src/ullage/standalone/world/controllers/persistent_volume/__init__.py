"""PersistentVolumes: made for claims, released, deleted."""
