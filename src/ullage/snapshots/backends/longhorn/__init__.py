"""Snapshots of volumes that Longhorn, or the embedded engine, serves: each is a `Snapshot` of `longhorn.io`.

handles      how snapshots are named outside of Longhorn
status     what a Snapshot's, a Volume's or the API's answer means for whoever asked. Pure
backend      `base.Backend`
"""
