"""What `ullage quota get project/ID` reads: the quota, and the record on it of what seeds may have."""

from __future__ import annotations

from typing import Final

from ullage.cli.common.project_quotas import counted, escrow_in, project_name, quota_of
from ullage.cli.common.session import Missing
from ullage.cli.common.text import plain
from ullage.cli.quota.project_text import ProjectQuota
from ullage.errors import BadInput
from ullage.kube.client.client import Client

NOT_DIVIDED: Final = (
    "nobody has written down what each seed may have of the quota of project %s: `ullage controller --role master` does, and it"
    " stands on the master"
)


async def read_project(client: Client, project: str) -> ProjectQuota:
    """Raises `Missing` where there is neither such a project nor a quota of it."""
    quota = await quota_of(client, project)
    name = await project_name(client, project)
    if quota is None and name is None:
        raise Missing(f"there is no project {project}, and no quota of it. Next: kubectl get projects")
    if quota is None:
        return ProjectQuota(project=project, name=name or "")
    notes = [] if name is not None else [f"there is no project {project} here: its quota holds when there is"]
    escrow = None
    try:
        escrow = escrow_in(quota)
        if escrow is None and counted(quota.status.local_usage) is None:
            notes.append(NOT_DIVIDED % project)
    except BadInput as error:
        notes.append(f"what the seeds may have cannot be read: {plain(str(error))}")
    return ProjectQuota(project=project, name=name or "", quota=quota, escrow=escrow, notes=tuple(notes))
