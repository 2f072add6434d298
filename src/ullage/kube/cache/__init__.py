"""List and watch of one kind, kept in memory with indexes: what controllers read."""
