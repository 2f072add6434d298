"""Who may do what with quotas. Whoever views a namespace sees its quota; nobody gets to write it with his namespace, since it
is there to limit him. Who may is bound to a role of its own, or gets Rancher's template of it, in Harvester's words.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.slices import Grant, RancherTemplate, UserRole
from ullage.space.api import HARVESTER_QUOTAS

ADMIN: Final = "ullage-resourcequotas-admin"
VIEWER: Final = "ullage-resourcequotas-viewer"
_WHERE: Final = "resourcequotas.harvesterhci.io on downstream Harvester cluster"

GRANTS: Final = (Grant(name="quota-view", roles=("view",), kinds=(HARVESTER_QUOTAS,), verbs=("get", "list", "watch")),)
USER_ROLES: Final = (
    UserRole(
        name=ADMIN,
        kinds=(HARVESTER_QUOTAS,),
        verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
        template=RancherTemplate(
            name="harvester-resourcequotas-admin",
            title="Harvester ResourceQuotas Admin Role",
            description=f"Harvester ResourceQuotas Admin can manage all {_WHERE}",
            verbs=("*",),
        ),
    ),
    UserRole(
        name=VIEWER,
        kinds=(HARVESTER_QUOTAS,),
        verbs=("get", "list", "watch"),
        template=RancherTemplate(
            name="harvester-resourcequotas-read-only",
            title="Harvester ResourceQuotas Read Role",
            description=f"Harvester ResourceQuotas Read Only can view {_WHERE}",
            verbs=("get", "list", "watch"),
        ),
    ),
)
