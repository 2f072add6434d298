"""Notices snapshots that the storage system does not have any more, and says so: `readyToUse: false`, reason `SnapshotLost`.

Longhorn's Snapshots are watched, so a loss shows at once (`controller`). What CSI drivers and directories have is listed at a
set interval (`listing`): what was missing twice in a row is looked for by its handle, and lost only if that finds nothing.
A snapshot that is there again is ready again.
"""
