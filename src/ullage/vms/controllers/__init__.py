"""One controller for each kind: `backup_take`, `restore_perform`."""
