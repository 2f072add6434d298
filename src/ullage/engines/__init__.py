"""Engine snapshots: every snapshot inside a volume engine is an object, Longhorn's Snapshot; 1,000 volumes with 30,000 of them.

`api`: Snapshot, Volume, Engine. `model`, `tickets`: the terms of decisions; `chain`: what an engine says of its snapshots.
`handles`: Longhorn's driver, namespace and `snap://VOLUME/SNAPSHOT`. `lookup`: the caches, by volume. `settings`, `metrics`.
`controllers/`: snapshot (take, mark, purge), engine (poll, make objects), volume (delete with its snapshots).
`webhook/`: checks that the API server cannot make by itself, since they read other objects.
`client/`: gRPC to engines over `protocol/`; `instances`: where real ones are. `local/`: the embedded engine.
`slice`: the composition. On one machine Longhorn's kinds are ours (`manage`); where Longhorn itself runs nothing is written.
"""
