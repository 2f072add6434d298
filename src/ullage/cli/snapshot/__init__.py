"""`ullage snapshot`."""
