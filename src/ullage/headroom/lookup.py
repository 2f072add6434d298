"""The caches, read in this slice's terms: a machine, its instance, and the migrations of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.slices import Wiring
from ullage.vms.api.machines import INSTANCES, MACHINES, VirtualMachine, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration

BY_INSTANCE: Final = "instance of a migration"
BY_NAMESPACE: Final = "namespace of a migration"


@dataclass(frozen=True, slots=True)
class ComputeLookup:
    """An instance has the name of its machine."""

    machines: Cache[VirtualMachine]
    instances: Cache[VirtualMachineInstance]
    migrations: Cache[VirtualMachineInstanceMigration]

    def migrations_of(self, instance: Key) -> list[VirtualMachineInstanceMigration]:
        return self.migrations.by(BY_INSTANCE, str(instance))

    def migrations_in(self, namespace: str) -> list[VirtualMachineInstanceMigration]:
        return self.migrations.by(BY_NAMESPACE, namespace)


def compute_lookup(wiring: Wiring) -> ComputeLookup:
    """Through `wiring.shared`: once for each wiring, since indexes have names."""
    lookup = ComputeLookup(wiring.cache(MACHINES), wiring.cache(INSTANCES), wiring.cache(MIGRATIONS))
    lookup.migrations.index(BY_INSTANCE, lambda one: (str(instance_key(one)),))
    lookup.migrations.index(BY_NAMESPACE, lambda one: (one.metadata.namespace,))
    return lookup


def instance_key(migration: VirtualMachineInstanceMigration) -> Key:
    """The instance that is to move."""
    return Key(migration.metadata.namespace, migration.spec.vmi_name)
