"""Every object in memory as the JSON that is sent, and every revision in SQLite.

store          reads see what is durable, writes build on what is staged (commits: one fsync for many)
watch_cache    one kind's objects and its recent events; older events are read from the disk
database       the revisions on disk; compaction, history: which of them go, and how much is old
sizes          how large objects may be, one and all together
maintenance    old history goes, free space returns to the disk; event_expiry: Events end after an hour
"""
