"""The caches that the world's controllers share, and how one object is found from another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ullage.engines import handles
from ullage.engines.api import ENGINES, VOLUMES, Volume
from ullage.kube.builtin.core import (
    CLAIMS,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from ullage.kube.builtin.storage import STORAGE_CLASSES, StorageClass
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.kinds import Meta, Value
from ullage.kube.objects import controller_of
from ullage.kube.slices import Wiring
from ullage.standalone.world import longhorn
from ullage.standalone.world.matching import ClaimFacts, default_of
from ullage.standalone.world.model import volume_name
from ullage.standalone.world.nodes import Placement, pick_node
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.lifecycle import is_over

# How claims are found: by uid, by the volume they name, and, while they name none, by their class.
BY_UID, BY_VOLUME, BY_CLASS = "uid", "volume", "class"
# How volumes are found: by the claim that they name, and, while they name none, by their class.
FOR_CLAIM, OF_CLASS = "claim", "class"
# How pods, and instances of VMs, are found: by the claims that they use, unless they are over. Pods by their controller too,
# and by their node, unless they are over; those that have none yet by an empty one.
BY_CLAIM, BY_CONTROLLER, BY_NODE = "claim", "controller", "node"


class SpecObject(Protocol):
    """Any object that has a spec."""

    @property
    def metadata(self) -> Meta: ...

    @property
    def spec(self) -> Value: ...


class StorageLookup:
    """The caches of everything that claims and volumes depend on, and how one finds the other."""

    def __init__(self, wiring: Wiring) -> None:
        self._client = wiring.client
        self.claims: Cache[PersistentVolumeClaim] = wiring.cache(CLAIMS)
        self.volumes: Cache[PersistentVolume] = wiring.cache(PERSISTENT_VOLUMES)
        self.classes: Cache[StorageClass] = wiring.cache(STORAGE_CLASSES)
        self.pods: Cache[Pod] = wiring.cache(PODS)
        self.nodes: Cache[Node] = wiring.cache(NODES)
        self.instances: Cache[VirtualMachineInstance] = wiring.cache(INSTANCES)
        self.claims.index(BY_UID, lambda one: (one.metadata.uid,))
        self.claims.index(BY_VOLUME, lambda one: (one.spec.volume_name,) if one.spec.volume_name else ())
        self.claims.index(BY_CLASS, lambda one: () if one.spec.volume_name else (one.class_name or "",))
        self.volumes.index(FOR_CLAIM, lambda one: (str(one.spec.claim_ref.key),) if one.spec.claim_ref else ())
        self.volumes.index(OF_CLASS, lambda one: () if one.spec.claim_ref else (one.spec.storage_class_name,))
        self.pods.index(BY_CLAIM, lambda one: () if one.is_over else (str(key) for key in one.claims))
        self.instances.index(BY_CLAIM, lambda one: () if is_over(one) else (str(key) for key in instance_claims(one)))
        self.pods.index(BY_CONTROLLER, lambda one: (owner.uid,) if (owner := controller_of(one.metadata)) else ())
        self.pods.index(BY_NODE, lambda one: () if one.is_over else (one.spec.node_name,))

    def facts(self, claim: PersistentVolumeClaim) -> ClaimFacts:
        name = claim.class_name
        key = str(key_of(claim))
        return ClaimFacts(
            named=self.volumes.get(Key("", claim.spec.volume_name)),
            candidates=[*self.volumes.by(FOR_CLAIM, key), *self.volumes.by(OF_CLASS, name or "")],
            storage_class=self.classes.get(Key("", name)) if name else None,
            default_class=default_of(self.classes.items()) if name is None else None,
            consumed=bool(self.pods.by(BY_CLAIM, key) or self.instances.by(BY_CLAIM, key)),
        )

    def place(self, pod: Pod) -> Placement:
        """The node that a pod gets, or why it gets none."""
        nodes = self.nodes.items()
        load = {one.metadata.name: len(self.pods.by(BY_NODE, one.metadata.name)) for one in nodes}
        claims = (self.claims.get(key) for key in pod.claims)
        found = (self.volumes.get(Key("", one.spec.volume_name)) for one in claims if one is not None and one.spec.volume_name)
        return pick_node(nodes, pod, volumes=[one for one in found if one is not None], load=load)

    def instances_of(self, claim: Key) -> list[VirtualMachineInstance]:
        """Those that use a claim, or would like to."""
        return self.instances.by(BY_CLAIM, str(claim))

    async def claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """Who has the name in claimRef. That somebody is gone is believed only of the API: data depends on it."""
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        found = self.claims.get(reference.key)
        if found is not None and found.metadata.uid == reference.uid:
            return found
        return await self._client.find(CLAIMS, reference.name, reference.namespace)

    def waiting(self, found: StorageClass) -> Iterable[PersistentVolumeClaim]:
        """The claims that a change of a class may concern: its own, and those that have none yet."""
        waiting = [*self.claims.by(BY_CLASS, found.metadata.name), *self.claims.by(BY_CLASS, "")]
        return [claim for claim in waiting if claim.class_name in (found.metadata.name, None)]

    def volumes_of(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        """The volumes that a claim has, names, or gets: a provisioner looks at these when the claim changes."""
        named = [claim.spec.volume_name] if claim.spec.volume_name else []
        given = [found.metadata.name for found in self.volumes.by(FOR_CLAIM, str(key_of(claim)))]
        return [Key("", name) for name in {volume_name(claim.metadata.uid), *named, *given}]

    def concerned(self, volume: PersistentVolume) -> Iterable[Key]:
        """The claims that a change of a volume may concern."""
        if volume.spec.claim_ref is not None:
            yield volume.spec.claim_ref.key
        else:
            yield from (key_of(one) for one in self.claims.by(BY_CLASS, volume.spec.storage_class_name))
        yield from (key_of(one) for one in self.claims.by(BY_VOLUME, volume.metadata.name))


# How Volumes are found that need another one's data, Engines of a Volume, and PersistentVolumes of a Volume.
BY_SOURCE, OF_VOLUME, BY_HANDLE = "source", "volume", "handle"


class LonghornLookup:
    """The caches of Volumes and Engines, and who uses them."""

    def __init__(self, wiring: Wiring, storage: StorageLookup) -> None:
        self.volumes = wiring.cache(VOLUMES, namespace=handles.NAMESPACE)
        self.engines = wiring.cache(ENGINES, namespace=handles.NAMESPACE)
        self.storage = storage
        self.volumes.index(BY_SOURCE, lambda one: (source,) if (source := longhorn.clones_from(one)) else ())
        self.engines.index(OF_VOLUME, lambda one: (one.spec.volume_name,))
        storage.volumes.index(BY_HANDLE, lambda one: (handle,) if (handle := longhorn.handle_of(one)) else ())

    def is_used(self, name: str) -> bool:
        """By a pod, by a VM, or by a volume that is being filled from it."""
        if self.volumes.by(BY_SOURCE, name):
            return True
        claims = [claim for found in self.storage.volumes.by(BY_HANDLE, name) for claim in self._claims(found)]
        return any(self._is_mounted(claim) or self._runs_with(claim) for claim in claims)

    def _is_mounted(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a pod has it that has got a node."""
        return any(one.spec.node_name for one in self.storage.pods.by(BY_CLAIM, str(key_of(claim))))

    def _runs_with(self, claim: PersistentVolumeClaim) -> bool:
        """Whether an instance of a VM has it that has got a node."""
        bound = claim.status.phase == "Bound"
        return bound and any(one.status.node_name for one in self.storage.instances_of(key_of(claim)))

    def _claims(self, volume: PersistentVolume) -> Iterable[PersistentVolumeClaim]:
        return self.storage.claims.by(BY_VOLUME, volume.metadata.name)

    # --- which Volumes a change may concern ---

    def of_volume(self, volume: Volume) -> Iterable[Key]:
        name, source = volume.metadata.name, longhorn.clones_from(volume)
        copies = (one.metadata.name for one in self.volumes.by(BY_SOURCE, name))
        return map(longhorn.volume_key, {name, *([source] if source else ()), *copies})

    def of_pod(self, pod: Pod) -> Iterable[Key]:
        found = (self.storage.claims.get(key) for key in pod.claims)
        return [key for claim in found if claim is not None for key in self.of_claim(claim)]

    def of_instance(self, instance: VirtualMachineInstance) -> Iterable[Key]:
        found = (self.storage.claims.get(key) for key in instance_claims(instance))
        return [key for claim in found if claim is not None for key in self.of_claim(claim)]

    def of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        volume = self.storage.volumes.get(Key("", claim.spec.volume_name)) if claim.spec.volume_name else None
        return of_persistent_volume(volume) if volume is not None else ()


def is_edited(old: SpecObject | None, new: SpecObject | None) -> bool:
    """Whether an object came or went, or somebody changed what is wanted of it. Statuses of some kinds change all the time."""
    if old is None or new is None:
        return True
    return (old.spec, old.metadata.labels) != (new.spec, new.metadata.labels)


def instance_claims(instance: VirtualMachineInstance) -> tuple[Key, ...]:
    namespace = instance.metadata.namespace
    return tuple(Key(namespace, one.claim) for one in instance.spec.volumes if one.claim)


def of_persistent_volume(volume: PersistentVolume) -> Iterable[Key]:
    handle = longhorn.handle_of(volume)
    return (longhorn.volume_key(handle),) if handle else ()
