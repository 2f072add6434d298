"""The hooks for Snapshots: each is tied to its volume before it is stored, and what cannot be is refused with the reason.

Where Longhorn itself runs there are no hooks: its own are asked, and two that mutate the same objects would be in each
other's way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Final

import msgspec

from ullage.clock import Clock
from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES, Engine, Snapshot, Volume
from ullage.engines.chain import HEAD
from ullage.engines.holds import PREFIX, Hold, holds_of, listed
from ullage.engines.lookup import Lookup, lookup_of
from ullage.engines.model import SnapshotUsage, stamped, usage_of, volume_reference, wanted_limits
from ullage.engines.webhook.rules import Creation, Fault, creation_fault, list_command, spelled
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.errors import Cause
from ullage.kube.identities import OWN, is_own
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.names import is_subdomain

# Snapshots that were admitted a moment ago: they count for their volume's limits before the cache shows their objects.
# Without it ten requests at the same time would all find the same room. It is remembered in this process only: where
# several serve the webhook, the engine itself is the last to check, and whatever it does not take fails at once.


SECONDS: Final = 30.0  # as long as a request may take to be stored, and the cache to show it; then it was refused elsewhere


class Admitted:
    """By volume: the names that were admitted, and until when each counts. Asking twice under one name takes one place."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._volumes: dict[Key, dict[str, float]] = {}

    def add(self, volume: Key, name: str) -> None:
        self._volumes.setdefault(volume, {})[name] = self._clock.monotonic() + SECONDS

    def names(self, volume: Key, *, shown: Callable[[Key], object | None]) -> Iterable[str]:
        """Those that the cache does not show yet. `shown` looks an object up there."""
        now = self._clock.monotonic()
        known = self._volumes.pop(volume, {})
        left = {name: end for name, end in known.items() if end > now and shown(Key(volume.namespace, name)) is None}
        if left:
            self._volumes[volume] = left
        return tuple(left)


# The hook that refuses the deletion of what is held: a Snapshot with the data of a VolumeSnapshot, and the Volume below
# it. Only held objects are sent here, so everything else can be deleted while the webhook is away. Our own controllers
# delete held Snapshots, since the record that holds one may be what has it deleted. A held Volume is nobody's to
# delete: whoever looked a moment ago may have seen no hold yet.


_OURS: Final = ", ".join(f"'{name}'" for name in sorted(OWN))
_HELD: Final = (
    "has(oldObject.metadata.annotations) && "
    f"oldObject.metadata.annotations.exists(key, key.startsWith('{PREFIX}')) && "
    f"(request.resource.resource == '{VOLUMES.plural}' || !(request.userInfo.username in [{_OURS}]))"
)


async def answer(review: Review) -> Decision:
    volumes = review.kind.kind == VOLUMES.kind
    found: Volume | Snapshot | None = review.old(VOLUMES) if volumes else review.old(ENGINE_SNAPSHOTS)
    holds = holds_of(found.metadata) if found is not None else ()
    if not holds or (is_own(review) and not volumes):
        return Decision.allow()
    problem = hold_refusal(review.kind.kind.lower(), review.name, holds)
    return Decision.refuse(problem, causes=(Cause("metadata.annotations", "FieldValueForbidden", problem),))


def hold_refusal(what: str, name: str, holds: tuple[Hold, ...]) -> str:
    kept = sorted({one.kept_by for one in holds if one.kept_by})
    records = f" ({kept[0]})" if len(kept) == 1 else ""
    said = f"{what} {name} is held by {listed(holds)}{records}, and its data would be lost; "
    if not kept:
        return said + f"take the annotation off first: {PREFIX}{holds[0].id}"
    kinds = " or ".join(sorted({one.partition("/")[0] for one in kept}))
    return said + f"delete the VolumeSnapshot first, and where that leaves its {kinds} (policy Retain), that one too"


HOOK: Final = Hook(
    name="engine-held",
    phase="validate",
    targets=(Target.of(ENGINE_SNAPSHOTS, "DELETE"), Target.of(VOLUMES, "DELETE")),
    answer=answer,
    only_if={"held": _HELD},
    side_effects="None",
)


# The hook for Volumes: a limit below what the volume has in snapshots is refused, since its engine would not take it.
# Everything else that can be wrong with a Volume the API server knows by itself (`validations`). So this is asked only
# when a limit changes, and while it is away a Volume can still be attached, detached and let go of.


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


_ENTRY: Final = "entry"


class SnapshotHooks:
    """Answers admission requests for Snapshots."""

    def __init__(self, client: Client, lookup: Lookup, *, clock: Clock) -> None:
        self._client = client
        self._lookup = lookup
        self._admitted = Admitted(clock)
        lookup.engines.index(_ENTRY, _entries)

    async def mutate(self, review: Review) -> Decision:
        """Sets finalizer, label and owner, and `createSnapshot` where it is absent. It refuses nothing: `validate` does, which
        sees the object as it will be stored."""
        snapshot = review.object(ENGINE_SNAPSHOTS)
        old = review.object_json()
        new = deepcopy(old)
        spec = new.get("spec")
        if isinstance(spec, dict) and spec.get("createSnapshot") is None:
            spec["createSnapshot"] = not is_system(review)
        volume = await self._volume_of(snapshot, review)
        if volume is not None:
            meta = stamped(snapshot.metadata, volume)
            owners = [msgspec.to_builtins(one) for one in meta.owner_references]
            stamps = {"finalizers": list(meta.finalizers), "labels": dict(meta.labels), "ownerReferences": owners}
            new.setdefault("metadata", {}).update(stamps)
        return review.change(old, new)

    async def validate(self, review: Review) -> Decision:
        """Refuses a Snapshot that could only fail later. Edits are judged by the API server itself: `validations`, `policy`."""
        new = review.object(ENGINE_SNAPSHOTS)
        volume = await self._volume_of(new, review)
        # From here on nothing is awaited: of two requests the second sees that the first was let in.
        fault = creation_fault(self._creation(new, volume, review))
        if fault is not None:
            return refusal(fault)
        owner = volume_reference(new.metadata)
        if volume is not None and (owner is None or owner.uid != volume.metadata.uid):
            # The volume came, or was replaced, between the two hooks.
            return Decision.again(f"volume {volume.metadata.name} has changed at this moment; try again")
        if new.spec.create_snapshot and not review.dry_run:
            self._admitted.add(Key(review.namespace, new.spec.volume), new.metadata.name)
        return Decision.allow()

    def _creation(self, snapshot: Snapshot, volume: Volume | None, review: Review) -> Creation:
        key = Key(review.namespace, snapshot.spec.volume)
        engines = self._lookup.engines_of(key)
        return Creation(
            snapshot=snapshot,
            system=is_system(review),
            volume=volume,
            engine=engines[0] if len(engines) == 1 else None,
            others=list(self._lookup.snapshots_of(volume)) if volume is not None else (),
            admitted=tuple(self._admitted.names(key, shown=self._lookup.snapshots.get)),
            users=sorted(self._users(Key(review.namespace, snapshot.metadata.name), but=snapshot.spec.volume)),
        )

    def _users(self, name: Key, *, but: str) -> set[str]:
        """Other volumes with a snapshot of this name: as an object, or only in their engine yet."""
        there = self._lookup.snapshots.get(name)
        found = {one.spec.volume_name for one in self._lookup.engines.by(_ENTRY, str(name))}
        return (found | ({there.spec.volume} if there is not None else set())) - {but}

    async def _volume_of(self, snapshot: Snapshot, review: Review) -> Volume | None:
        """The cache is believed where it says what the object says; otherwise the API is asked, for what can be a name."""
        if not is_subdomain(snapshot.spec.volume):
            return None
        owner = volume_reference(snapshot.metadata)
        known = self._lookup.volumes.get(Key(review.namespace, snapshot.spec.volume))
        if known is not None and owner is not None and owner.uid == known.metadata.uid:
            return known
        return await self._client.find(VOLUMES, snapshot.spec.volume, review.namespace)


def is_system(review: Review) -> bool:
    """Our own identities show what engines have, which is nobody's request."""
    return is_own(review)


def refusal(fault: Fault) -> Decision:
    """The cause of a limit that is reached has the reason that an engine would give: callers know it by that."""
    if fault.limit is not None:
        message = f"{fault.problem}; {fault.next_step}"
        return Decision.refuse(message, causes=(Cause(fault.field, str(fault.limit), fault.problem),))
    return Decision.invalid(str(fault), Cause(fault.field, "FieldValueInvalid", fault.problem))


def _entries(engine: Engine) -> Iterable[str]:
    namespace = engine.metadata.namespace
    return (str(Key(namespace, name)) for name in engine.status.snapshots or () if name != HEAD)


def make_hooks(wiring: Wiring) -> list[Hook]:
    lookup = lookup_of(wiring)
    hooks = SnapshotHooks(wiring.client, lookup, clock=wiring.clock)
    return [
        Hook(
            name="engine-snapshot-stamp",
            phase="mutate",
            targets=(Target.of(ENGINE_SNAPSHOTS, "CREATE"),),
            answer=hooks.mutate,
            side_effects="None",
        ),
        Hook(
            name="engine-snapshot",
            phase="validate",
            targets=(Target.of(ENGINE_SNAPSHOTS, "CREATE"),),
            answer=hooks.validate,
        ),
        volume_hook(lookup),
        HOOK,
    ]
