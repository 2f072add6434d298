"""What Longhorn would decide: which claims get a volume of engines, when one is attached, where a clone's data comes from."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from ullage.engines import tickets
from ullage.engines.api import FINALIZER, VOLUME_LABEL, VOLUMES, Engine, EngineSpec, VolumeSpec
from ullage.engines.api import Volume as EngineVolume
from ullage.engines.handles import DRIVER, FORM, NAMESPACE, SnapshotHandle, aligned
from ullage.errors import BadInput
from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting, owner_reference
from ullage.quantity import Format, Quantity
from ullage.standalone.world.model import NODE, PROVISIONED_BY, RESTORED_FROM, Json, volume_name, wants_data
from ullage.standalone.world.rules.binding import ClaimFacts, Delete, LetGo, best_match, delayed, requested
from ullage.standalone.world.rules.provision import Provision, Refuse, reference_to

CLASS: Final = "longhorn"
HELD: Final = "ullage.io/longhorn"  # the finalizer of a PersistentVolume whose Volume is ours to delete
STORED: Final = "ullage.io/engine"  # the finalizer of a Volume that may have data on the host

# What the names in a `dataSource` may be made of: engines have snapshots whose names no object can have.
_VOLUME: Final = re.compile(r"[a-z0-9][-a-z0-9.]*")
_SNAPSHOT: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")

STORAGE_CLASS: Final[Json] = {
    "apiVersion": STORAGE_CLASSES.api_version,
    "kind": STORAGE_CLASSES.kind,
    "metadata": {"name": CLASS},
    "provisioner": DRIVER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
    "allowVolumeExpansion": False,
}


# --- claims and PersistentVolumes ------------------------------------------------------------------------------------


def plan_provision(claim: PersistentVolumeClaim, facts: ClaimFacts) -> Provision | Refuse | None:
    """None: somebody else's claim, or one that does not need a new volume, or not yet."""
    found = facts.storage_class
    if found is None or found.provisioner != DRIVER or claim.spec.volume_name:
        return None
    if is_deleting(claim.metadata) or wants_data(claim) or delayed(found, consumed=facts.consumed):
        return None
    if claim.spec.selector is not None:
        return Refuse("spec.selector: not allowed where volumes are made on demand")
    return None if best_match(claim, facts) else Provision(volume_name(claim.metadata.uid), found)


def size_of(claim: PersistentVolumeClaim) -> int:
    """In bytes."""
    return aligned(max(1, requested(claim).value()))


def volume_for(claim: PersistentVolumeClaim) -> EngineVolume:
    """The Volume of a claim. The mark says that it goes if its claim does."""
    meta = Meta(
        name=volume_name(claim.metadata.uid),
        namespace=NAMESPACE,
        annotations={PROVISIONED_BY: DRIVER},
        finalizers=(FINALIZER, STORED),
    )
    return EngineVolume(metadata=meta, spec=VolumeSpec(size=str(size_of(claim)), number_of_replicas=1, frontend="blockdev"))


def persistent_volume_for(claim: PersistentVolumeClaim, made: Provision) -> Json:
    """It names its claim from the start: nobody else can take it."""
    found, mode = made.storage_class, claim.spec.volume_mode
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {"name": made.name, "annotations": {PROVISIONED_BY: DRIVER}, "finalizers": [HELD]},
        "spec": {
            "capacity": {"storage": str(Quantity.of(size_of(claim), Format.BINARY_SI))},
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": mode,
            "persistentVolumeReclaimPolicy": found.reclaim_policy,
            "storageClassName": found.metadata.name,
            **({"mountOptions": list(found.mount_options)} if found.mount_options else {}),
            "csi": {
                "driver": DRIVER,
                "volumeHandle": made.name,
                **({"fsType": "ext4"} if mode == "Filesystem" else {}),
            },
            "claimRef": reference_to(claim),
        },
    }


def is_ours(volume: PersistentVolume) -> bool:
    """Whether the PersistentVolume was made here, for the Volume of its name. Restored ones belong to who restored them."""
    marks, meta = volume.metadata.annotations, volume.metadata
    return marks.get(PROVISIONED_BY) == DRIVER and RESTORED_FROM not in marks and handle_of(volume) == meta.name


def handle_of(volume: PersistentVolume) -> str:
    """The Volume behind a PersistentVolume; empty: it is no volume of engines."""
    source = volume.spec.csi
    return source.volume_handle if source is not None and source.driver == DRIVER else ""


def plan_persistent_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> Delete | LetGo | None:
    """For one of ours. `claim` is whoever has the name that stands in claimRef. What its phase is others decide."""
    reference, meta = volume.spec.claim_ref, volume.metadata
    owner = claim if claim is not None and reference is not None and claim.metadata.uid == reference.uid else None
    if owner is not None and owner.spec.volume_name in ("", meta.name):
        return None
    goes = volume.spec.persistent_volume_reclaim_policy == "Delete"
    if is_deleting(meta):
        return LetGo(with_data=goes) if HELD in meta.finalizers else None
    return Delete() if goes and volume.status.phase in ("Released", "Failed") else None


# --- Volumes and Engines ---------------------------------------------------------------------------------------------


def source_of(volume: EngineVolume) -> SnapshotHandle | None:
    """Where the volume's first data comes from; None: it begins empty."""
    given = volume.spec.data_source
    if not given:
        return None
    found = _handle(given)
    if found is None:
        raise BadInput("spec.dataSource", given, f"{FORM} is allowed")
    return found


def _handle(text: str) -> SnapshotHandle | None:
    found = SnapshotHandle.parse(text)
    known = found is not None and _VOLUME.fullmatch(found.volume) and _SNAPSHOT.fullmatch(found.snapshot)
    return found if known else None


def is_filled(volume: EngineVolume) -> bool:
    """Whether it has the data that it is to begin with."""
    return not volume.spec.data_source or _clone_state(volume) == "completed"


def clones_from(volume: EngineVolume) -> str:
    """The volume that this one still needs data of; empty: none."""
    if is_deleting(volume.metadata) or _clone_state(volume) in ("completed", "failed"):
        return ""
    found = _handle(volume.spec.data_source)
    return found.volume if found is not None else ""


def wants_attached(volume: EngineVolume, *, used: bool, now: datetime) -> bool:
    """`used`: a pod has it, or another volume is being filled from it. One that is not filled itself is nobody's yet."""
    held = any(tickets.is_valid(one, now) for one in (volume.spec.attachment_tickets or {}).values())
    return is_filled(volume) and (used or held or bool(volume.spec.node_id))


def engine_for(volume: EngineVolume) -> Engine:
    """Whoever has this object knows that what the host has under the volume's name is this volume's."""
    meta = volume.metadata
    owner = owner_reference(VOLUMES, meta)
    return Engine(
        metadata=Meta(
            name=f"{meta.name}-e-0",
            namespace=meta.namespace,
            labels={VOLUME_LABEL: meta.name},
            owner_references=(owner,),
        ),
        spec=EngineSpec(volume_name=meta.name, volume_size=volume.spec.size, node_id=NODE, desire_state="stopped", active=True),
    )


def _clone_state(volume: EngineVolume) -> str:
    found = volume.status.clone_status
    return found.state if found is not None else ""
