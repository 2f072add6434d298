"""`ullage vm`: start, stop and pause VMs, fill their disks, back them up and restore them."""
