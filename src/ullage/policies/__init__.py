"""What is done with snapshots by rule: each package is a slice of its own.

cut_hooks      commands that run in pods right before and right after a volume is cut
groups         snapshots of several volumes at one moment (VolumeGroupSnapshot)
counts         how many snapshots there may be (SnapshotLimit); the oldest makes room
restores       claims brought back to a snapshot in place, and undone (SnapshotRestore)
schedules      snapshots at set times, and which of them are kept (SnapshotSchedule)
sharing        a snapshot given to other namespaces by an administrator (SnapshotShare)
"""
