"""The block store: volumes as chains of sparse files in a directory."""
