"""Which claim and which volume belong together: what a cluster's volume binder decides.

`claimRef` on the volume is the lock: whoever's uid stands there has the volume, and it is written on condition of the version
that was read. Only then is the claim told. So of two claims that want one volume, one gets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.events.reason import Reason
from ullage.kube.objects import is_deleting
from ullage.standalone.world.matching import ClaimFacts, best_match, delayed, mismatch, other_class
from ullage.standalone.world.model import ASKED_PROVISIONER, BIND_COMPLETED, NO_PROVISIONER, wants_data

CLAIM_LOST: Final = Reason("ClaimLost", action="Bind", type="Warning")
CLAIM_MISBOUND: Final = Reason("ClaimMisbound", action="Bind", type="Warning")
FAILED_BINDING: Final = Reason("FailedBinding", action="Bind", type="Warning")
VOLUME_MISMATCH: Final = Reason("VolumeMismatch", action="Bind", type="Warning")


@dataclass(frozen=True, slots=True)
class Bind:
    """The two belong together: whatever of that is not yet written down is to be."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class SetClass:
    """It was made when there was no default class, and now there is one."""

    name: str


@dataclass(frozen=True, slots=True)
class AskFor:
    """Write on the claim which provisioner is to make its volume: provisioners of a cluster wait for that."""

    provisioner: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Pending. A reason is given where waiting alone may not help."""

    reason: Reason | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class MarkLost:
    """It was bound, and its volume is not there any more, or not its own."""

    reason: Reason
    note: str


ClaimPlan = Bind | SetClass | AskFor | Wait | MarkLost


def plan_claim(claim: PersistentVolumeClaim, facts: ClaimFacts) -> ClaimPlan:
    if BIND_COMPLETED in claim.metadata.annotations:
        return _plan_bound(claim, facts.named)
    if is_deleting(claim.metadata):
        return Wait()
    if claim.spec.volume_name:
        return _plan_named(claim, facts.named)
    if claim.class_name is None and facts.default_class:
        return SetClass(facts.default_class)
    found = best_match(claim, facts)
    if found is not None:
        return Bind(found)
    return AskFor(asked) if (asked := _unasked(claim, facts)) else Wait()


def _unasked(claim: PersistentVolumeClaim, facts: ClaimFacts) -> str:
    """The provisioner that is still to be asked for the claim's volume. The world's own makes volumes unasked."""
    found = facts.storage_class
    if found is None or not wants_data(claim) or delayed(found, consumed=facts.consumed):
        return ""
    asked = claim.metadata.annotations.get(ASKED_PROVISIONER)
    return "" if found.provisioner in (asked, NO_PROVISIONER) else found.provisioner


def _plan_bound(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimPlan:
    if not claim.spec.volume_name:
        return MarkLost(CLAIM_LOST, "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
    if volume is None:
        return MarkLost(CLAIM_LOST, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    reference = volume.spec.claim_ref
    if reference is None or reference.names(claim.metadata):
        return Bind(volume)
    return MarkLost(CLAIM_MISBOUND, "Two claims are bound to the same volume, this one is bound incorrectly")


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
    if problem := mismatch(claim, volume) or other_class(claim, volume):
        return Wait(VOLUME_MISMATCH, f'Cannot bind to requested volume "{name}": {problem}')
    return Bind(volume)
