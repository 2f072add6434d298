"""Who may do what with SnapshotLimits. Whoever views a namespace sees its limits; nobody gets to write them with his
namespace, since they are there to limit him. Who may is bound to a role of its own."""

from __future__ import annotations

from typing import Final

from ullage.kube.slices import Grant, UserRole
from ullage.policies.counts.api import SNAPSHOT_LIMITS

ADMIN: Final = "ullage-snapshotlimits-admin"

GRANTS: Final = (Grant(name="snapshot-limit-view", roles=("view",), kinds=(SNAPSHOT_LIMITS,), verbs=("get", "list", "watch")),)
USER_ROLES: Final = (
    UserRole(
        name=ADMIN,
        kinds=(SNAPSHOT_LIMITS,),
        verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
    ),
)
