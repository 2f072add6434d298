"""What Ullage writes on a Namespace: its shares, that they are passed, and a label by which hooks find it. Pure.

Nobody else may write these. The webhook puts them back in the request that changes them; the controller writes them where no
webhook has seen the namespace, since it was there before.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from ullage.headroom.shares import MAINTENANCE_AVAILABLE, MAINTENANCE_QUOTA, RESOURCE_QUOTA, VM_AVAILABLE, Reading, available
from ullage.kube.identities import NAMESPACE
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json

EXCEEDS: Final = "harvesterhci.io/exceedsQuota"
EXCEEDED: Final = "true"
HEADROOM_LABEL: Final = "ullage.io/headroom"
ON: Final = "on"
INPUTS: Final = (RESOURCE_QUOTA, MAINTENANCE_QUOTA)
GUARDED: Final = (VM_AVAILABLE, MAINTENANCE_AVAILABLE, EXCEEDS)
NOT_OURS: Final = ("kube-system", NAMESPACE)  # nothing is limited there: whoever limits would stop with what he limits


@dataclass(frozen=True, slots=True)
class Marks:
    """What is to stand on a Namespace; None: nothing."""

    annotations: Mapping[str, str | None]
    label: str | None

    def missing(self, meta: Meta) -> Json:
        """The merge patch of the metadata that brings them there; empty: they are."""
        annotations = {key: value for key, value in self.annotations.items() if meta.annotations.get(key) != value}
        label = {HEADROOM_LABEL: self.label} if meta.labels.get(HEADROOM_LABEL) != self.label else {}
        return {**({"annotations": annotations} if annotations else {}), **({"labels": label} if label else {})}


def marks_for(reading: Reading, new: Meta, old: Meta | None, *, own: bool) -> Marks:
    """Of a namespace that is written. Whether the shares are passed, we alone say; without shares nothing is passed. Where the
    annotations cannot be read, all stays as it was."""
    before = old.annotations if old is not None else {}
    if reading.faults:
        return Marks({key: before.get(key) for key in GUARDED}, old.labels.get(HEADROOM_LABEL) if old is not None else None)
    if not reading.shares:
        return Marks(dict.fromkeys(GUARDED), None)
    said = new.annotations if own else before
    return Marks({**available(reading.shares), EXCEEDS: said.get(EXCEEDS)}, ON)


def with_marks(body: Json, marks: Marks) -> Json:
    """An object with them, and all else as it is."""
    changed = deepcopy(body)
    for where, wanted in (("annotations", marks.annotations), ("labels", {HEADROOM_LABEL: marks.label})):
        held = changed["metadata"].get(where) or {}
        kept = {key: value for key, value in held.items() if key not in wanted}
        after = {**kept, **{key: value for key, value in wanted.items() if value is not None}}
        if after != held:
            changed["metadata"][where] = after
    return changed
