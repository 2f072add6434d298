"""Who may do what with quotas of projects. Nobody gets to write them with a project: they are there to limit it.

Administrators are bound to a role of their own. A member of a project may `get` its quota, by name: KKP gives its members a
role for that. Where KKP is not, an administrator does: `--verb=get --resource=resourcequotas.kubermatic.k8c.io
--resource-name=project-<id>`.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.slices import UserRole
from ullage.projects.api.quotas import PROJECT_QUOTAS

ADMIN: Final = "ullage-project-quotas-admin"
VIEWER: Final = "ullage-project-quotas-viewer"

USER_ROLES: Final = (
    UserRole(
        name=ADMIN,
        kinds=(PROJECT_QUOTAS,),
        verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
    ),
    UserRole(name=VIEWER, kinds=(PROJECT_QUOTAS,), verbs=("get", "list", "watch")),
)
