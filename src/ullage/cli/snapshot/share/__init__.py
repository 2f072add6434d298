"""`ullage snapshot share`, `shares` and `unshare`: an administrator gives a snapshot to other namespaces, and takes it back."""
