"""What users of a namespace may do with snapshots, through the roles that administrators give out anyway.

VolumeSnapshots only. A VolumeSnapshotContent or VolumeSnapshotData names handles of the storage system, and whoever could write
one could have anybody's data restored.
"""

from __future__ import annotations

from ullage.kube.slices import Grant
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE


def aggregated_roles() -> list[Grant]:
    """`edit` becomes part of the roles edit and admin, `view` part of view, which those two gather as a whole."""
    snapshots = (GA.snapshots, PROTOTYPE.snapshots)
    return [
        Grant(
            name="edit",
            roles=("edit", "admin"),
            kinds=snapshots,
            verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
        ),
        Grant(name="view", roles=("view",), kinds=(*snapshots, GA.classes), verbs=("get", "list", "watch")),
    ]
