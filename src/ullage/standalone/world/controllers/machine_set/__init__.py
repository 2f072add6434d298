"""MachineSets of a user cluster."""
