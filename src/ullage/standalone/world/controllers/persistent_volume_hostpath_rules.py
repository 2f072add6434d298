"""What becomes of a PersistentVolume: its phase, and, if it is a directory of ours, when it is made and when it goes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import DEFAULT_CLASS
from ullage.kube.objects import Json, is_deleting
from ullage.standalone.world.controllers import persistent_volume_plans as plans
from ullage.standalone.world.controllers.persistent_volume_plans import Delete, Finalize, Provision, Refuse
from ullage.standalone.world.matching import ClaimFacts
from ullage.standalone.world.model import (
    BOUND_BY_CONTROLLER,
    CLASS,
    HOSTNAME,
    HOSTPATH_FINALIZER,
    NODE,
    PROVISIONED_BY,
    PROVISIONER,
    is_provisioned_here,
)

LOOK_AGAIN: Final = 60.0  # seconds, after what was in the way of a deletion: no watch tells of files
STORAGE_CLASS: Final[Json] = plans.new_storage_class(CLASS, PROVISIONER, annotations={DEFAULT_CLASS: "true"})


def plan_provision(claim: PersistentVolumeClaim, facts: ClaimFacts) -> Provision | Refuse | None:
    mode = claim.spec.volume_mode
    allowed = "Filesystem is allowed: the volumes of this class are directories"
    problem = "" if mode == "Filesystem" else f"spec.volumeMode {mode}: {allowed}"
    return plans.plan_provision(claim, facts, provisioner=PROVISIONER, problem=problem)


def new_volume(claim: PersistentVolumeClaim, plan: Provision, *, path: str) -> Json:
    here = {"key": HOSTNAME, "operator": "In", "values": [NODE]}
    return plans.new_volume(
        claim,
        plan,
        provisioner=PROVISIONER,
        finalizer=HOSTPATH_FINALIZER,
        capacity=claim.spec.resources.requests["storage"],
        source={
            "hostPath": {"path": path, "type": "Directory"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    )


@dataclass(frozen=True, slots=True)
class SetPhase:
    phase: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unbind:
    """It was given to a claim that took another one. `free`: we chose the claim, so it is anybody's again."""

    free: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """As it should be."""


VolumePlan = SetPhase | Unbind | Delete | Finalize | Keep


def plan_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumePlan:
    """`claim` is whoever has the name that stands in claimRef, or None."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return Finalize(with_data=_goes(volume)) if _held(volume) else _phase(volume, "Available")
    owner = claim if claim is not None and claim.metadata.uid == reference.uid else None
    if owner is not None and owner.spec.volume_name in ("", volume.metadata.name):
        # The claim's own reconciler does the rest of the binding, and is woken by the same changes.
        return _phase(volume, "Bound") if owner.spec.volume_name else Keep()
    if _held(volume):
        return Finalize(with_data=_goes(volume))
    if owner is not None and PROVISIONED_BY not in volume.metadata.annotations:
        return Unbind(free=BOUND_BY_CONTROLLER in volume.metadata.annotations)
    if volume.status.phase not in ("Released", "Failed"):
        return SetPhase("Released")
    return Delete() if is_provisioned_here(volume) and _goes(volume) and not is_deleting(volume.metadata) else Keep()


def _held(volume: PersistentVolume) -> bool:
    return is_deleting(volume.metadata) and HOSTPATH_FINALIZER in volume.metadata.finalizers


def _goes(volume: PersistentVolume) -> bool:
    return volume.spec.persistent_volume_reclaim_policy == "Delete"


def _phase(volume: PersistentVolume, phase: str) -> VolumePlan:
    return Keep() if volume.status.phase == phase else SetPhase(phase)


def not_deleted(error: Exception) -> str:
    """Why the data of a volume is still there, and what an administrator can do about it."""
    return (
        f"{error}; remove what is at that path by hand, and the PersistentVolume goes within {LOOK_AGAIN:.0f} s, "
        f"or take its finalizer {HOSTPATH_FINALIZER} off, which leaves the files where they are"
    )
