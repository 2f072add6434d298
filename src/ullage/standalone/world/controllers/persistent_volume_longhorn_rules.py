"""Which claims get a Volume of Longhorn and a PersistentVolume on it, and when both go. Pure."""

from __future__ import annotations

from typing import Final

from ullage.engines.api import FINALIZER, Volume, VolumeSpec
from ullage.engines.handles import DRIVER, NAMESPACE, aligned
from ullage.engines.holds import holds_of, listed
from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, is_deleting
from ullage.quantity import Format, Quantity
from ullage.standalone.world.controllers import persistent_volume_plans as plans
from ullage.standalone.world.controllers.persistent_volume_plans import Delete, Finalize, Provision, Refuse
from ullage.standalone.world.longhorn import PERSISTENT_VOLUME_FINALIZER, VOLUME_FINALIZER, handle_of
from ullage.standalone.world.matching import ClaimFacts, requested
from ullage.standalone.world.model import PROVISIONED_BY, RESTORED_FROM, volume_name

STORAGE_CLASS: Final[Json] = plans.new_storage_class("longhorn", DRIVER)


def plan_provision(claim: PersistentVolumeClaim, facts: ClaimFacts) -> Provision | Refuse | None:
    return plans.plan_provision(claim, facts, provisioner=DRIVER)


def size_of(claim: PersistentVolumeClaim) -> int:
    """In bytes."""
    return aligned(max(1, requested(claim).value()))


def new_longhorn_volume(claim: PersistentVolumeClaim) -> Volume:
    """The Volume of a claim. The mark says that it goes if its claim does."""
    meta = Meta(
        name=volume_name(claim.metadata.uid),
        namespace=NAMESPACE,
        annotations={PROVISIONED_BY: DRIVER},
        finalizers=(FINALIZER, VOLUME_FINALIZER),
    )
    return Volume(metadata=meta, spec=VolumeSpec(size=str(size_of(claim)), number_of_replicas=1, frontend="blockdev"))


def new_volume(claim: PersistentVolumeClaim, plan: Provision) -> Json:
    file_system = {"fsType": "ext4"} if claim.spec.volume_mode == "Filesystem" else {}
    return plans.new_volume(
        claim,
        plan,
        provisioner=DRIVER,
        finalizer=PERSISTENT_VOLUME_FINALIZER,
        capacity=str(Quantity.of(size_of(claim), Format.BINARY_SI)),
        source={"csi": {"driver": DRIVER, "volumeHandle": plan.name, **file_system}},
    )


def held_note(backing: Volume) -> str:
    """Why a PersistentVolume that nobody has stays with its Volume; empty: nothing holds it."""
    holds = holds_of(backing.metadata)
    if not holds:
        return ""
    return f"volume {backing.metadata.name} stays: it has the data of {listed(holds)}; it goes when they are deleted"


def is_ours(volume: PersistentVolume) -> bool:
    """Whether the PersistentVolume was made here, for the Volume of its name. Restored ones belong to who restored them."""
    marks, meta = volume.metadata.annotations, volume.metadata
    return marks.get(PROVISIONED_BY) == DRIVER and RESTORED_FROM not in marks and handle_of(volume) == meta.name


def plan_persistent_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> Delete | Finalize | None:
    """For one of ours. `claim` is whoever has the name that stands in claimRef. What its phase is others decide."""
    reference, meta = volume.spec.claim_ref, volume.metadata
    owner = claim if claim is not None and reference is not None and claim.metadata.uid == reference.uid else None
    if owner is not None and owner.spec.volume_name in ("", meta.name):
        return None
    goes = volume.spec.persistent_volume_reclaim_policy == "Delete"
    if is_deleting(meta):
        return Finalize(with_data=goes) if PERSISTENT_VOLUME_FINALIZER in meta.finalizers else None
    return Delete() if goes and volume.status.phase in ("Released", "Failed") else None
