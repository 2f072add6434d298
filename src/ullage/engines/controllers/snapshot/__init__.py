"""Takes and removes the snapshots that Snapshot objects ask for."""
