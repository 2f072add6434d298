"""restore_perform: carries SnapshotRestores out."""
