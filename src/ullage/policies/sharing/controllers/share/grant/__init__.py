"""Gives a snapshot to other namespaces, and takes it back when the grant is withdrawn."""
