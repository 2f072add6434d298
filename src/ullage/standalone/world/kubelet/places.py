"""Where the volumes of a pod are: from the names that its containers mount to PersistentVolumes and their directories."""

from __future__ import annotations

from collections.abc import Callable

from ullage.errors import Terminal
from ullage.kube.builtin.core import PersistentVolume, Pod
from ullage.kube.cache.indexer import Key
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.kubelet.shell import Places, VolumePlace
from ullage.standalone.world.lookup import StorageLookup


def places_of(storage: StorageLookup, directories: Directories) -> Callable[[Pod], Places]:
    def of_pod(pod: Pod) -> Places:
        claims = {
            volume.name: volume.persistent_volume_claim.claim_name
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        }

        def find(name: str) -> VolumePlace:
            claim = storage.claims.get(Key(pod.metadata.namespace, claims[name])) if name in claims else None
            if claim is None:
                raise Terminal(f"volume {name}: only claims hold data here")
            volume = storage.volumes.get(Key("", claim.spec.volume_name)) if claim.spec.volume_name else None
            reference = volume.spec.claim_ref if volume is not None else None
            if volume is None or reference is None or reference.uid != claim.metadata.uid:
                raise Terminal(f"claim {claim.metadata.name}: it has no volume")
            return _place(volume, directories)

        return find

    return of_pod


def _place(volume: PersistentVolume, directories: Directories) -> VolumePlace:
    name = volume.metadata.name
    if volume.spec.host_path is None:
        return VolumePlace(name, "its volume is no directory of this machine")
    try:
        return VolumePlace(name, directories.root / directories.name_of(volume.spec.host_path.path))
    except Terminal as error:
        return VolumePlace(name, str(error))
