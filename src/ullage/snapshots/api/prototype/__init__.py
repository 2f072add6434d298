"""`volumesnapshot.external-storage.k8s.io/v1`, the API as it was proposed.

`types` has its kinds. `translation` reads and writes them; `conditions` shows a state as conditions. Parameters of snapshots
stand in an annotation of the StorageClass.
"""
