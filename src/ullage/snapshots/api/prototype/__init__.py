"""`volumesnapshot.external-storage.k8s.io/v1`, the API as it was proposed.

`types` are its kinds, `translation` reads and writes them; `conditions` shows a state as conditions, `parameters` reads those
of snapshots from an annotation of the StorageClass.
"""
