"""Which claims a VM uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ullage.vms.api.machines import MachineVolume, VirtualMachine, VirtualMachineInstance


def claims_of(machine: VirtualMachine | VirtualMachineInstance) -> tuple[str, ...]:
    """The claims behind its disks, in their order, each once. Images, cloud-init and the like have none."""
    return tuple(dict.fromkeys(volume.claim for volume in volumes_of(machine)))


def volumes_of(machine: VirtualMachine | VirtualMachineInstance) -> Iterator[MachineVolume]:
    """The volumes that have a claim; where two name the same, the first."""
    spec = machine.spec.template.spec if isinstance(machine, VirtualMachine) else machine.spec
    return _first_of_each(volume for volume in spec.volumes if volume.claim)


def _first_of_each(volumes: Iterable[MachineVolume]) -> Iterator[MachineVolume]:
    seen: set[str] = set()
    for volume in volumes:
        if volume.claim not in seen:
            seen.add(volume.claim)
            yield volume
