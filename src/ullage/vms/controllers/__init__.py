"""A controller for each kind: `backup/take`, `restore/perform`."""
