"""`ullage quota`: limits on the space of snapshots, of a namespace and of its virtual machines."""
