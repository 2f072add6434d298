"""`ullage usage`: what snapshots take, by namespace, by virtual machine, by volume."""
