"""Which claim and which volume belong together: what a cluster's volume binder decides.

`claimRef` on the volume is the lock: whoever's uid stands there has the volume, and it is written on condition of the version
that was read. Only then is the claim told. So of two claims that want one volume, one gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.events.recorder import Reason
from ullage.kube.objects import is_deleting
from ullage.quantity import ZERO, Quantity
from ullage.selectors import LabelSelector
from ullage.standalone.world.model import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    HELD,
    PROVISIONED_BY,
    is_provisioned_here,
    wants_data,
)

CLAIM_LOST: Final = Reason("ClaimLost", action="Bind", type="Warning")
CLAIM_MISBOUND: Final = Reason("ClaimMisbound", action="Bind", type="Warning")
FAILED_BINDING: Final = Reason("FailedBinding", action="Bind", type="Warning")
VOLUME_MISMATCH: Final = Reason("VolumeMismatch", action="Bind", type="Warning")


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What a decision on a claim needs: the volume that it names, and those that might do."""

    named: PersistentVolume | None = None
    candidates: Sequence[PersistentVolume] = ()
    storage_class: StorageClass | None = None
    default_class: str | None = None
    consumed: bool = False  # some pod uses it


# --- what is to be done with a claim ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bind:
    """The two belong together: whatever of that is not yet written down is to be."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class TakeClass:
    """It was made when there was no default class, and now there is one."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Pending. A reason is given where waiting alone may not help."""

    reason: Reason | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Lose:
    """It was bound, and its volume is not there any more, or not its own."""

    reason: Reason
    note: str


ClaimPlan = Bind | TakeClass | Wait | Lose


def plan_claim(claim: PersistentVolumeClaim, facts: ClaimFacts) -> ClaimPlan:
    if BIND_COMPLETED in claim.metadata.annotations:
        return _plan_bound(claim, facts.named)
    if is_deleting(claim.metadata):
        return Wait()
    if claim.spec.volume_name:
        return _plan_named(claim, facts.named)
    if claim.class_name is None and facts.default_class:
        return TakeClass(facts.default_class)
    found = best_match(claim, facts)
    return Bind(found) if found else Wait()


def _plan_bound(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimPlan:
    if not claim.spec.volume_name:
        return Lose(CLAIM_LOST, "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
    if volume is None:
        return Lose(CLAIM_LOST, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    reference = volume.spec.claim_ref
    if reference is None or reference.names(claim.metadata):
        return Bind(volume)
    return Lose(CLAIM_MISBOUND, "Two claims are bound to the same volume, this one is bound incorrectly")


def _plan_named(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimPlan:
    name = claim.spec.volume_name
    if volume is None:
        return Wait(FAILED_BINDING, f'volume "{name}" not found')
    reference = volume.spec.claim_ref
    if reference is not None:
        if reference.names(claim.metadata):
            return Bind(volume)
        return Wait(FAILED_BINDING, f'volume "{name}" already bound to a different claim.')
    if is_deleting(volume.metadata):
        return Wait(FAILED_BINDING, f'volume "{name}" is being deleted')
    if problem := misfit(claim, volume) or _other_class(claim, volume):
        return Wait(VOLUME_MISMATCH, f'Cannot bind to requested volume "{name}": {problem}')
    return Bind(volume)


def best_match(claim: PersistentVolumeClaim, facts: ClaimFacts) -> PersistentVolume | None:
    """The volume that names the claim, or else the smallest free one that will do.

    A claim that waits for its first pod, or for data, takes only a volume that was made for it.
    """
    fitting = [one for one in facts.candidates if not is_deleting(one.metadata) and misfit(claim, one) is None]
    made_for_it = next((one for one in fitting if one.spec.claim_ref and one.spec.claim_ref.names(claim.metadata)), None)
    if made_for_it is not None or wants_data(claim) or delayed(facts.storage_class, consumed=facts.consumed):
        return made_for_it
    free = (one for one in fitting if one.spec.claim_ref is None and one.status.phase in ("", "Pending", "Available"))
    suitable = (one for one in free if _other_class(claim, one) is None and _selected(claim, one))
    return min(suitable, key=lambda one: (size(one), one.metadata.name), default=None)


def delayed(storage_class: StorageClass | None, *, consumed: bool) -> bool:
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer" and not consumed


def misfit(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str | None:
    """Why a volume cannot serve a claim; None if it can."""
    asked = requested(claim)
    if size(volume) < asked:
        return f"requested PV is too small: {size(volume)}, and {asked} is asked for"
    if volume.spec.volume_mode != claim.spec.volume_mode:
        return f"incompatible volumeMode: {volume.spec.volume_mode}, and {claim.spec.volume_mode} is asked for"
    if missing := [mode for mode in claim.spec.access_modes if mode not in volume.spec.access_modes]:
        return f"incompatible accessMode: it lacks {', '.join(missing)}"
    return None


def requested(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.parse(str(claim.spec.resources.requests.get("storage", "0")))


def size(volume: PersistentVolume) -> Quantity:
    text = volume.spec.capacity.get("storage")
    return Quantity.parse(str(text)) if text else ZERO


def _other_class(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str | None:
    wanted = claim.class_name or ""
    if volume.spec.storage_class_name == wanted:
        return None
    return f"storageClassName does not match: {volume.spec.storage_class_name!r}, and {wanted!r} is asked for"


def _selected(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    selector = claim.spec.selector
    return selector is None or LabelSelector.of(selector).matches(volume.metadata.labels)


def default_of(classes: Iterable[StorageClass]) -> str | None:
    """The newest of the default classes, between equals the first by name: as the API server chooses."""
    by_name = sorted((one for one in classes if one.is_default), key=lambda one: one.metadata.name)
    newest = max(by_name, key=lambda one: one.metadata.creation_timestamp, default=None)
    return newest.metadata.name if newest else None


# --- what is to be done with a volume --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetPhase:
    phase: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unbind:
    """It was given to a claim that took another one. `free`: we chose the claim, so it is anybody's again."""

    free: bool


@dataclass(frozen=True, slots=True)
class Delete:
    """Nobody has it any more, and its policy says that it goes."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """It is being deleted, and nobody uses it: its directory goes first (`with_data`), or is left to the administrator."""

    with_data: bool


@dataclass(frozen=True, slots=True)
class Rest:
    """As it should be."""


VolumePlan = SetPhase | Unbind | Delete | LetGo | Rest


def plan_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumePlan:
    """`claim` is whoever has the name that stands in claimRef, or None."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return LetGo(with_data=_goes(volume)) if _held(volume) else _phase(volume, "Available")
    owner = claim if claim is not None and claim.metadata.uid == reference.uid else None
    if owner is not None and owner.spec.volume_name in ("", volume.metadata.name):
        # The claim's own reconciler does the rest of the binding, and is woken by the same changes.
        return _phase(volume, "Bound") if owner.spec.volume_name else Rest()
    if _held(volume):
        return LetGo(with_data=_goes(volume))
    if owner is not None and PROVISIONED_BY not in volume.metadata.annotations:
        return Unbind(free=BOUND_BY_CONTROLLER in volume.metadata.annotations)
    if volume.status.phase not in ("Released", "Failed"):
        return SetPhase("Released")
    return Delete() if is_provisioned_here(volume) and _goes(volume) and not is_deleting(volume.metadata) else Rest()


def _held(volume: PersistentVolume) -> bool:
    return is_deleting(volume.metadata) and HELD in volume.metadata.finalizers


def _goes(volume: PersistentVolume) -> bool:
    return volume.spec.persistent_volume_reclaim_policy == "Delete"


def _phase(volume: PersistentVolume, phase: str) -> VolumePlan:
    return Rest() if volume.status.phase == phase else SetPhase(phase)
