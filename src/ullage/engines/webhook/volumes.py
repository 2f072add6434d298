"""The hook for Volumes: a limit below what the volume has in snapshots is refused, since its engine would not take it.

Everything else that can be wrong with a Volume the API server knows by itself (`validations`). So this is asked only when a
limit changes, and while it is away a Volume can still be attached, detached and let go of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.engines.api import VOLUMES, Volume
from ullage.engines.lookup import Lookup
from ullage.engines.model import SnapshotUsage, usage_of, wanted_limits
from ullage.engines.webhook.rules import Fault, list_command, spelled
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Cause
from ullage.kube.review import Decision, Hook, Review, Target


def limits_fault(old: Volume, new: Volume, used: SnapshotUsage) -> Fault | None:
    """What is wrong with the limits of an edited volume. Those that stay as they are are not judged again."""
    before, after, meta = wanted_limits(old), wanted_limits(new), new.metadata
    first = f"delete some first: {list_command(meta.namespace, meta.name)}"
    if after.max_count != before.max_count and after.max_count < used.count:
        there = f"volume {meta.name} has {used.count} snapshots"
        return Fault("spec.snapshotMaxCount", f"{after.max_count} is too little: {there}; {first}")
    if after.max_size and after.max_size != before.max_size and after.max_size < used.size:
        there, lacking = f"the snapshots of volume {meta.name} take {spelled(used.size)}", used.size - after.max_size
        return Fault("spec.snapshotMaxSize", f"{spelled(after.max_size)} is {spelled(lacking)} too little: {there}; {first}")
    return None


class VolumeHooks:
    """Answers admission requests for Volumes."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def validate(self, review: Review) -> Decision:
        new, old = review.object(VOLUMES), review.old(VOLUMES)
        engines = self._lookup.engines_of(Key(review.namespace, new.metadata.name))
        if old is None or len(engines) != 1:
            return Decision.allow()  # while it migrates nobody knows which of two is right
        fault = limits_fault(old, new, usage_of(engines[0]))
        if fault is None:
            return Decision.allow()
        return Decision.invalid(str(fault), Cause(fault.field, "FieldValueInvalid", fault.problem))


def _given(field: str, nothing: str, *, of: str) -> str:
    return f"(has({of}.spec.{field}) ? {of}.spec.{field} : {nothing})"


def _differs(field: str, nothing: str) -> str:
    return f"{_given(field, nothing, of='object')} != {_given(field, nothing, of='oldObject')}"


ONLY_IF: Final[Mapping[str, str]] = {
    "stays": "!has(object.metadata.deletionTimestamp)",
    "another-limit": "has(object.spec) && has(oldObject.spec) && "
    f"({_differs('snapshotMaxCount', '0')} || {_differs('snapshotMaxSize', repr(''))})",
}


def volume_hook(lookup: Lookup) -> Hook:
    return Hook(
        name="engine-volume-limits",
        phase="validate",
        targets=(Target.of(VOLUMES, "UPDATE"),),
        answer=VolumeHooks(lookup).validate,
        only_if=ONLY_IF,
        side_effects="None",
    )
