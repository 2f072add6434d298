"""Virtual machines: their backups and their restores.

- `api`: KubeVirt's kinds, as far as they are needed, and VirtualMachineBackup and VirtualMachineRestore
- `claims`, `lookup`: which claims a VM uses, and which VMs use a claim
- `controllers/backup_take`: a snapshot of each volume, all or none; `controllers/restore_perform`: claims from them, and the VM
- `migration_settings`: how KubeVirt is told to move instances between nodes
- `webhook`: what is refused at once, and why
- `settings`: on a cluster that runs Harvester both kinds are its own, and are looked at only
"""
