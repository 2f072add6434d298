"""The block store: volumes as chains of sparse files in one directory.

`store`: all volumes of a directory; `volume`: one of them; `state`: its lock, and what is known of it in memory.
`directory`, `record`: its files and the order of changes; `files`: the only place that touches a disk.
`purge`, `clone`: merges, and copies into a new volume. `tree`, `limits`, `index`, `spans`, `views`, `names`: pure.
`errors`: Refused, NotFound, Damaged, Unavailable.
"""
