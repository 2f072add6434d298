"""The caches, read in this slice's terms: which VMs use a claim, and which restores have a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.slices import Wiring
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance
from ullage.vms.api.restores import VM_RESTORES, VirtualMachineRestore
from ullage.vms.claims import claims_of

BY_CLAIM: Final = "claim of a VM"
BY_TARGET: Final = "target of a restore"


@dataclass(frozen=True, slots=True)
class MachineLookup:
    machines: Cache[VirtualMachine]
    instances: Cache[VirtualMachineInstance]

    def machine(self, namespace: str, name: str) -> VirtualMachine | None:
        return self.machines.get(Key(namespace, name))

    def instance(self, namespace: str, name: str) -> VirtualMachineInstance | None:
        return self.instances.get(Key(namespace, name))

    def using(self, namespace: str, claim: str) -> list[VirtualMachine]:
        """The VMs whose spec names the claim now."""
        return self.machines.by(BY_CLAIM, str(Key(namespace, claim)))


def machine_lookup(wiring: Wiring) -> MachineLookup:
    """Through `wiring.shared`: once for each wiring, since indexes have names."""
    lookup = MachineLookup(wiring.cache(VIRTUAL_MACHINES), wiring.cache(INSTANCES))
    lookup.machines.index(BY_CLAIM, claim_keys)
    return lookup


def restores_by_target(wiring: Wiring) -> Cache[VirtualMachineRestore]:
    """Through `wiring.shared`, as above."""
    restores = wiring.cache(VM_RESTORES)
    restores.index(BY_TARGET, lambda one: (str(Key(one.metadata.namespace, one.spec.target.name)),))
    return restores


def claim_keys(machine: VirtualMachine) -> tuple[str, ...]:
    return tuple(str(Key(machine.metadata.namespace, claim)) for claim in claims_of(machine))
