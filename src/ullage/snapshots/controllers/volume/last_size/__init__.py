"""Has snapshots of CSI volumes estimated by the last one of their volume, where a StorageClass asks for that."""
