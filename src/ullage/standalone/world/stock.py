"""Volumes of engines and their Engines as they are looked up, and who uses them."""

from __future__ import annotations

from collections.abc import Iterable

from ullage.engines.api import ENGINES, VOLUMES, Volume
from ullage.engines.handles import NAMESPACE
from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim, Pod
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.slices import Wiring
from ullage.standalone.world.claims import BY_CLAIM, BY_VOLUME, Storage
from ullage.standalone.world.rules import longhorn as rules

# How Volumes are found that need another one's data, Engines of a Volume, and PersistentVolumes of a Volume.
BY_SOURCE, OF_VOLUME, BY_HANDLE = "source", "volume", "handle"


class Stock:
    """The caches of Volumes and Engines, and who uses them."""

    def __init__(self, wiring: Wiring, storage: Storage) -> None:
        self.volumes = wiring.cache(VOLUMES, namespace=NAMESPACE)
        self.engines = wiring.cache(ENGINES, namespace=NAMESPACE)
        self.storage = storage
        self.volumes.index(BY_SOURCE, lambda one: (source,) if (source := rules.clones_from(one)) else ())
        self.engines.index(OF_VOLUME, lambda one: (one.spec.volume_name,))
        storage.volumes.index(BY_HANDLE, lambda one: (handle,) if (handle := rules.handle_of(one)) else ())

    def is_used(self, name: str) -> bool:
        """By a pod, or by a volume that is being filled from it."""
        if self.volumes.by(BY_SOURCE, name):
            return True
        claims = (claim for found in self.storage.volumes.by(BY_HANDLE, name) for claim in self._claims(found))
        return any(self.storage.pods.by(BY_CLAIM, str(key_of(claim))) for claim in claims)

    def _claims(self, volume: PersistentVolume) -> Iterable[PersistentVolumeClaim]:
        return self.storage.claims.by(BY_VOLUME, volume.metadata.name)

    # --- which Volumes a change may concern ---

    def of_volume(self, volume: Volume) -> Iterable[Key]:
        name, source = volume.metadata.name, rules.clones_from(volume)
        return map(
            stocked, {name, *([source] if source else ()), *(key_of(one).name for one in self.volumes.by(BY_SOURCE, name))}
        )

    def of_pod(self, pod: Pod) -> Iterable[Key]:
        found = (self.storage.claims.get(key) for key in pod.claims)
        return [key for claim in found if claim is not None for key in self.of_claim(claim)]

    def of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        volume = self.storage.volumes.get(Key("", claim.spec.volume_name)) if claim.spec.volume_name else None
        return of_persistent_volume(volume) if volume is not None else ()


def of_persistent_volume(volume: PersistentVolume) -> Iterable[Key]:
    handle = rules.handle_of(volume)
    return (stocked(handle),) if handle else ()


def stocked(name: str) -> Key:
    """The key of a Volume."""
    return Key(NAMESPACE, name)
