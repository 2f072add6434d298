"""The slice as one value: backups and restores of VMs, for those kinds that are ours."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.kinds import Kind
from ullage.kube.slices import Slice
from ullage.vms.api.backups import BACKUPS
from ullage.vms.api.machines import INSTANCES, MACHINES
from ullage.vms.api.restores import RESTORES
from ullage.vms.roles import aggregated_roles
from ullage.vms.settings import Settings

NAME: Final = "vms"


def vms(settings: Settings | None = None) -> Slice:
    """What is observed is somebody else's: nothing is brought, and nothing is asked of its definition."""
    chosen = settings or Settings()
    kinds: tuple[Kind[Any], ...] = (
        *((BACKUPS,) if chosen.backups == "manage" else ()),
        *((RESTORES,) if chosen.restores == "manage" else ()),
    )
    if not kinds:
        return Slice(name=NAME)
    return Slice(name=NAME, kinds=kinds, served=(MACHINES, INSTANCES), grants=aggregated_roles(kinds))
