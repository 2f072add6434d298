"""Names that the shell completes in `ullage vm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.cli.common.completion import asked

if TYPE_CHECKING:
    from ullage.cli.common.session import Session


@asked
async def machines(session: Session) -> list[str]:
    """By name in the command's own namespace, and with theirs in all others that may be read."""
    from ullage.kube.errors import Forbidden
    from ullage.vms.api.machines import VIRTUAL_MACHINES

    try:
        found = (await session.client.list(VIRTUAL_MACHINES)).items
    except Forbidden:
        found = (await session.client.list(VIRTUAL_MACHINES, session.namespace)).items
    here = [one.metadata.name for one in found if one.metadata.namespace == session.namespace]
    return here + [f"{one.metadata.namespace}/{one.metadata.name}" for one in found]


@asked
async def backups(session: Session) -> list[str]:
    from ullage.vms.api.backups import VM_BACKUPS

    return [one.metadata.name for one in (await session.client.list(VM_BACKUPS, session.namespace)).items]
