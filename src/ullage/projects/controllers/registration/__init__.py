"""What the registration of our hooks in a user cluster is watched by."""
