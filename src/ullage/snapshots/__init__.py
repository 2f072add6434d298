"""VolumeSnapshots of both APIs: taken, deleted, restored.

`slice` says what the main controller, the webhook and a sidecar run. `controllers/<kind>_<verb>` bind snapshots to records,
sync records with drivers, release and restore claims, and reclaim restored volumes. `webhook` reads the restore annotation.
`cut` is what VM backups and group snapshots share: members, gate, failure, undo. `lookup` finds objects in the caches. `model`
has the terms of every decision; `binding`, `source_volume`, `data_source`, `restored_volume`, `volume_queue`,
`class_parameters` and `selection` are pure and shared. `api` has the kinds of both APIs and
translates them; `backends` call the storage systems. `settings` names the drivers that are ours, `roles` are those of users.
"""
