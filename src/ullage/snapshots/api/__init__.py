"""The two VolumeSnapshot APIs: `ga` (`snapshot.storage.k8s.io/v1`) and `prototype` (the proposal's group).

Each has its kinds in `types` and, in `translation`, a `model.Dialect`: it reads objects into the terms of `model.py` and says
what to write for a new state. `common` is what both write in the same way.
"""
