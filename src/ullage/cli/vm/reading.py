"""What `ullage vm` reads from a cluster: VMs, and their instances while they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.cli.common.session import Missing, NotInstalled, Session
from ullage.cli.vm.options import Target
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance


@dataclass(frozen=True, slots=True)
class FoundMachine:
    """`instance` is what runs of it, for those who ask for it."""

    machine: VirtualMachine
    instance: VirtualMachineInstance | None = None

    @property
    def target(self) -> Target:
        return Target(self.machine.metadata.namespace, self.machine.metadata.name)

    @property
    def shown(self) -> str:
        """As kubectl names it."""
        return f"{VIRTUAL_MACHINES.kind.lower()}.{VIRTUAL_MACHINES.group}/{self.machine.metadata.name}"


async def require_served(client: Client) -> None:
    if not await client.served(VIRTUAL_MACHINES):
        raise NotInstalled(f"this cluster does not serve {VIRTUAL_MACHINES.name}: it has no VMs")


async def find_machine(session: Session, target: Target, *, instance: bool = False) -> FoundMachine:
    """`instance`: with what runs of it."""
    place = target.within(session.namespace)
    try:
        machine = await session.client.find(VIRTUAL_MACHINES, place.name, place.namespace)
    except NotFound:
        await require_served(session.client)
        raise
    if machine is None:
        raise Missing(f"VM {place.name} does not exist in namespace {place.namespace}")
    runs = await session.client.find(INSTANCES, place.name, place.namespace) if instance else None
    return FoundMachine(machine, runs)


async def find_machines(
    session: Session, targets: Sequence[Target], otherwise: str = "", *, instances: bool = False
) -> list[FoundMachine]:
    """All of them, or none: whoever misspells one name has nothing done to the others."""
    found: list[FoundMachine] = []
    missing: list[Missing] = []
    for target in targets:
        try:
            found.append(await find_machine(session, target, instance=instances))
        except NotInstalled:
            raise
        except Missing as error:
            missing.append(error)
    if missing:
        raise Missing("; ".join([*map(str, missing), *([otherwise] if otherwise and len(targets) > 1 else [])]))
    return found
