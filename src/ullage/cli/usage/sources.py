"""What `ullage usage -w` follows: the kinds that the usage of namespaces is read from.

They only tell that it is time to read again, so one too many costs a reading, and one that may not be read is left out.
"""

from __future__ import annotations

from typing import Any

from ullage.cli.common.session import Session
from ullage.cli.common.watching import followable
from ullage.cli.usage.text import GroupBy
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.handles import NAMESPACE as ENGINES_NAMESPACE
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.reflector import Selection
from ullage.kube.kinds import Kind
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.keys import ledger_name
from ullage.policies.counts.api import SNAPSHOT_LIMITS
from ullage.space.api import HARVESTER_QUOTAS
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS


async def sources(session: Session, group: GroupBy, *, everywhere: bool, labels: str) -> list[Selection[Any]]:
    """Some of them may not be there, or not for everybody to read."""
    namespace = "" if everywhere or labels else session.namespace
    chosen: list[Selection[Any]] = [Selection(NAMESPACES, labels=labels)] if labels else []
    if group == "volume":
        return [*chosen, *_of_volumes(session, namespace)]
    ledgers: list[Selection[Any]] = [Selection(LEDGERS, NAMESPACE, fields=_named(ledger_name(namespace)) if namespace else "")]
    if not await followable(session.client, ledgers):
        # as they are read by those who may not read ledgers
        ledgers = [Selection(HARVESTER_QUOTAS, namespace), Selection(SNAPSHOT_LIMITS, namespace)]
    if group != "namespace" or not namespace:
        return [*chosen, *ledgers]
    snapshots: list[Selection[Any]] = [Selection(one.snapshots, namespace) for one in session.among]
    return [*chosen, *ledgers, *_of_machines(namespace), *snapshots]  # these where there is no ledger


def _of_volumes(session: Session, namespace: str) -> list[Selection[Any]]:
    """Whose claim a PersistentVolume is does not change while it has snapshots."""
    snapshots: list[Selection[Any]] = [Selection(one.snapshots, namespace) for one in session.among]
    return [*snapshots, Selection(VM_BACKUPS, namespace), Selection(ENGINE_SNAPSHOTS, ENGINES_NAMESPACE)]


def _of_machines(namespace: str) -> list[Selection[Any]]:
    """What is shown of the VMs of one namespace beside what its ledger says."""
    kinds: tuple[Kind[Any], ...] = (VIRTUAL_MACHINES, INSTANCES, MIGRATIONS)
    return [Selection(NAMESPACES, fields=_named(namespace)), *(Selection(kind, namespace) for kind in kinds)]


def _named(name: str) -> str:
    return f"metadata.name={name}"
