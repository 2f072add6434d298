"""The caches, read in this slice's terms: a machine, its instance, and the migrations of that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ullage.headroom.pods import instance_owner
from ullage.kube.builtin.watched_pods import WATCHED_PODS, WatchedPod
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.slices import Wiring
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration

BY_INSTANCE: Final = "instance of a migration"
BY_NAMESPACE: Final = "namespace of a migration"
BY_OWNER: Final = "instance of a pod"


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
    lookup = ComputeLookup(wiring.cache(VIRTUAL_MACHINES), wiring.cache(INSTANCES), wiring.cache(MIGRATIONS))
    lookup.migrations.index(BY_INSTANCE, lambda one: (str(instance_key(one)),))
    lookup.migrations.index(BY_NAMESPACE, lambda one: (one.metadata.namespace,))
    return lookup


def launcher_pods(wiring: Wiring) -> Cache[WatchedPod]:
    """All pods, those of an instance by its key. Through `wiring.shared`, as above."""
    pods = wiring.cache(WATCHED_PODS)
    pods.index(BY_OWNER, lambda one: map(str, owners_of(one)))
    return pods


def owners_of(pod: WatchedPod) -> Iterable[Key]:
    """The instance that controls a pod, if one does."""
    owner = instance_owner(pod.metadata)
    return () if owner is None else (Key(pod.metadata.namespace, owner.name),)


def instance_key(migration: VirtualMachineInstanceMigration) -> Key:
    """The instance that is to move."""
    return Key(migration.metadata.namespace, migration.spec.vmi_name)
