"""Which PersistentVolume suits a claim, and which StorageClass is the default: as a cluster decides it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.objects import is_deleting
from ullage.quantity import ZERO, Quantity
from ullage.selectors import LabelSelector
from ullage.standalone.world.model import wants_data


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What a decision on a claim needs: the volume that it names, and those that might do."""

    named: PersistentVolume | None = None
    candidates: Sequence[PersistentVolume] = ()
    storage_class: StorageClass | None = None
    default_class: str | None = None
    consumed: bool = False  # some pod, or VM, uses it


def best_match(claim: PersistentVolumeClaim, facts: ClaimFacts) -> PersistentVolume | None:
    """The volume that names the claim, or else the smallest free one that will do.

    A claim that waits for its first pod, or for data, takes only a volume that was made for it.
    """
    fitting = [one for one in facts.candidates if not is_deleting(one.metadata) and mismatch(claim, one) is None]
    made_for_it = next((one for one in fitting if one.spec.claim_ref and one.spec.claim_ref.names(claim.metadata)), None)
    if made_for_it is not None or wants_data(claim) or delayed(facts.storage_class, consumed=facts.consumed):
        return made_for_it
    free = (one for one in fitting if one.spec.claim_ref is None and one.status.phase in ("", "Pending", "Available"))
    suitable = (one for one in free if other_class(claim, one) is None and _selected(claim, one))
    return min(suitable, key=lambda one: (size(one), one.metadata.name), default=None)


def delayed(storage_class: StorageClass | None, *, consumed: bool) -> bool:
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer" and not consumed


def mismatch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str | None:
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


def other_class(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str | None:
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
