"""Takes and deletes the storage system's snapshots, record by record, by calls to the driver."""
