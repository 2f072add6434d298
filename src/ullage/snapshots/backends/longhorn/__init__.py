"""Snapshots of volumes that Longhorn, or the embedded engine, serves: each is a `Snapshot` of `longhorn.io`.

`backend` is the `base.Backend`, through the API alone; `handles` checks what users write; `status` says what a Snapshot, a
Volume or a refusal of the API means for the caller.
"""
