"""The caches of migrations and of KubeVirt's configuration, and how one object is found from another."""

from __future__ import annotations

from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.slices import Wiring
from ullage.standalone.world.lookup import StorageLookup
from ullage.vms.api.kubevirts import KUBEVIRTS, KubeVirt
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration
from ullage.vms.migration_settings import MigrationSettings, given_in, obeyed
from ullage.vms.prices import kubevirt_in

BY_INSTANCE: Final = "instance"  # how migrations are found: by the instance that they name


class MigrationLookup:
    def __init__(self, wiring: Wiring, storage: StorageLookup) -> None:
        self._client = wiring.client
        self.storage = storage
        self.migrations: Cache[VirtualMachineInstanceMigration] = wiring.cache(MIGRATIONS)
        self.kubevirts: Cache[KubeVirt] = wiring.cache(KUBEVIRTS)
        self.migrations.index(BY_INSTANCE, lambda one: (str(instance_key(one)),))

    def kubevirt(self) -> KubeVirt | None:
        return kubevirt_in(self.kubevirts)

    def settings(self) -> MigrationSettings:
        return obeyed(given_in(self.kubevirt()))

    def of_name(self, instance: Key) -> list[VirtualMachineInstanceMigration]:
        """Those that name an instance."""
        return self.migrations.by(BY_INSTANCE, str(instance))

    def of_instance(self, migration: VirtualMachineInstanceMigration) -> list[VirtualMachineInstanceMigration]:
        """Those of the same instance, itself among them."""
        return self.of_name(instance_key(migration))

    async def instance_of(self, migration: VirtualMachineInstanceMigration) -> VirtualMachineInstance | None:
        """That it is gone is believed only of the API: each cache fills in its own time."""
        key = instance_key(migration)
        found = self.storage.instances.get(key)
        return found if found is not None else await self._client.find(INSTANCES, key.name, key.namespace)

    def is_running(self, migration: VirtualMachineInstanceMigration) -> bool:
        instance = self.storage.instances.get(instance_key(migration))
        return instance is not None and instance.status.phase == "Running"

    def left_by(self, migration: VirtualMachineInstanceMigration) -> str:
        """The node that the instance leaves; empty where it is not known."""
        instance = self.storage.instances.get(instance_key(migration))
        if instance is None:
            return ""
        state = instance.status.migration_state
        if state is not None and state.migration_uid == migration.metadata.uid and state.source_node:
            return state.source_node
        return instance.status.node_name


def instance_key(migration: VirtualMachineInstanceMigration) -> Key:
    return Key(migration.metadata.namespace, migration.spec.vmi_name)
