"""What is admitted of what takes snapshot space: each object is stamped with what it takes, and booked, or refused.

charging: the hooks of a kind, which stamp, guard and book; payment: who pays. volume_snapshots, records, engine_snapshots,
backups: what a new object takes, and when growth has happened already. hooks: all of these. quotas: which limits make sense.
"""
