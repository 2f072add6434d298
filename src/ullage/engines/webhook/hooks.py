"""The hooks for Snapshots: each is tied to its volume before it is stored, and what cannot be is refused with the reason.

Where Longhorn itself runs there are no hooks: its own are asked, and two that mutate the same objects would be in each
other's way.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Final

import msgspec

from ullage.clock import Clock
from ullage.engines.api import SNAPSHOTS, VOLUMES, Engine, Snapshot, Volume
from ullage.engines.chain import HEAD
from ullage.engines.lookup import Lookup, lookup_of
from ullage.engines.model import stamped, volume_reference
from ullage.engines.webhook import holds
from ullage.engines.webhook.admitted import Admitted
from ullage.engines.webhook.rules import Creation, Fault, creation_fault
from ullage.engines.webhook.volumes import volume_hook
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.names import is_subdomain

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
        snapshot = review.object(SNAPSHOTS)
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
        new = review.object(SNAPSHOTS)
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
            targets=(Target.of(SNAPSHOTS, "CREATE"),),
            answer=hooks.mutate,
            side_effects="None",
        ),
        Hook(
            name="engine-snapshot",
            phase="validate",
            targets=(Target.of(SNAPSHOTS, "CREATE"),),
            answer=hooks.validate,
        ),
        volume_hook(lookup),
        holds.HOOK,
    ]
