"""Keys, workers and leadership: what runs a slice's `reconcile`."""
