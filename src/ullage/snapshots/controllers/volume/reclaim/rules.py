"""What becomes of a restored volume once its claim is gone. Pure."""

from __future__ import annotations

from enum import Enum, auto

from ullage.kube.builtin.core import PersistentVolume
from ullage.kube.objects import is_deleting


class Fate(Enum):
    """What becomes of a volume."""

    STAY = auto()
    DISCARD = auto()  # the volume is deleted, then the PersistentVolume
    LET_GO = auto()  # somebody deleted the PersistentVolume, and wants the volume kept


def fate_of(volume: PersistentVolume, *, claimed: bool) -> Fate:
    """While its claim lives a volume stays, whoever deletes its PersistentVolume. So does one without a claim's uid: an
    administrator has freed it, or keeps it for another claim."""
    if claimed:
        return Fate.STAY
    ref, deleting = volume.spec.claim_ref, is_deleting(volume.metadata)
    had_claim = ref is not None and bool(ref.uid)
    if volume.spec.persistent_volume_reclaim_policy == "Delete":
        return Fate.DISCARD if had_claim or deleting else Fate.STAY
    return Fate.LET_GO if deleting else Fate.STAY
