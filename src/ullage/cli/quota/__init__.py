"""`ullage quota`: limits on the space of snapshots, and on the CPUs and memory that the VMs of a namespace share."""
