"""Owner references: what goes when its owner goes, what waits for it, and what is let go.

The collector keeps a graph of uids from the store's events and works through a queue of keys. Nothing in it is state: it is
rebuilt from the objects at start, and every step looks at them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue
from ullage.standalone.apiserver.handlers.calls import Call
from ullage.standalone.apiserver.handlers.deletes import FOREGROUND, ORPHAN, Deleter
from ullage.standalone.apiserver.handlers.writes import Writer
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.delete_options import DeleteOptions
from ullage.standalone.apiserver.request.write_options import internal
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.entries import Entry, Event, Key
from ullage.standalone.apiserver.storage.store import Store

COLLECTOR = User("system:serviceaccount:kube-system:generic-garbage-collector", groups=(MASTERS,))
QUIET = internal("garbage-collector")

Place = tuple[str, Key]  # storage and key
POLICIES = (("Orphan", ORPHAN), ("Foreground", FOREGROUND))  # what an object's own finalizers ask for
REMEMBERED = 10_000


class Reference(msgspec.Struct, gc=False):
    uid: str = ""
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    blockOwnerDeletion: bool | None = None


class _OwnedMeta(msgspec.Struct, gc=False):
    uid: str
    ownerReferences: list[Reference] | None = None
    finalizers: list[str] | None = None
    deletionTimestamp: str | None = None


class _Owned(msgspec.Struct, gc=False):
    metadata: _OwnedMeta


_decoder = msgspec.json.Decoder(_Owned)


@dataclass(frozen=True, slots=True)
class Sorted:
    """An object's owners: there, never to come back, and waiting for their dependents."""

    solid: list[Reference]
    dangling: list[Reference]
    waiting: list[Reference]


class GarbageCollector:
    def __init__(self, store: Store, *, registry: Registry, writer: Writer, deleter: Deleter) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._places: dict[str, Place] = {}  # uid to where it lives
        self._dependents: dict[str, set[Place]] = {}  # owner's uid to what it owns
        self._owners: dict[Place, tuple[str, ...]] = {}
        self._waiting: set[str] = set()  # uids of owners that go when their dependents are gone
        self._gone: dict[str, None] = {}  # uids that were seen to go, the latest last: their kind may be gone, too
        self.queue: WorkQueue[Place] = WorkQueue(self._process, name="garbage-collector", workers=16)
        for storage in store.storages():
            for entry in store.items(storage):
                self._note((storage, entry.key), _decoder.decode(entry.data).metadata)
        store.listeners.append(self._on_event)

    def _on_event(self, storage: str, event: Event) -> None:
        meta = _decoder.decode(event.data).metadata
        place = (storage, event.key)
        before = self._owners.get(place, ())
        if event.type == "DELETED":
            self._forget(place)
            self._places.pop(meta.uid, None)
            self._waiting.discard(meta.uid)
            self._gone[meta.uid] = None
            if len(self._gone) > REMEMBERED:
                del self._gone[next(iter(self._gone))]
            for dependent in self._dependents.get(meta.uid, ()):
                self.queue.add(dependent)
        else:
            self._note(place, meta)
        # An owner that waits does so for those that were its dependents, as well: they may have let go.
        for uid in {*before, *self._owners.get(place, ())} & self._waiting:
            self.queue.add(self._places[uid])

    def _note(self, place: Place, meta: _OwnedMeta) -> None:
        self._places[meta.uid] = place
        if place in self._owners:
            self._forget(place)
        if meta.ownerReferences:
            self._owners[place] = tuple(reference.uid for reference in meta.ownerReferences)
            for reference in meta.ownerReferences:
                self._dependents.setdefault(reference.uid, set()).add(place)
        finalizers = (meta.finalizers or ()) if meta.deletionTimestamp else ()
        if FOREGROUND in finalizers:
            self._waiting.add(meta.uid)
        else:
            self._waiting.discard(meta.uid)
        if meta.ownerReferences or FOREGROUND in finalizers or ORPHAN in finalizers:
            self.queue.add(place)

    def _forget(self, place: Place) -> None:
        for uid in set(self._owners.pop(place, ())):
            found = self._dependents[uid]
            found.discard(place)
            if not found:
                del self._dependents[uid]

    # --- one key at a time ---

    async def _process(self, place: Place) -> None:
        storage, key = place
        entry = self._store.get(storage, *key)
        resource = self._resource(storage)
        if entry is None or resource is None:
            return
        meta = _decoder.decode(entry.data).metadata
        finalizers = meta.finalizers or []
        if meta.deletionTimestamp and ORPHAN in finalizers:
            await self._orphan(resource, entry, meta)
        elif meta.deletionTimestamp and FOREGROUND in finalizers:
            await self._wait_for_dependents(resource, entry, meta)
        elif meta.ownerReferences and not meta.deletionTimestamp:
            await self._judge(resource, entry, meta)

    async def _judge(self, resource: Resource, entry: Entry, meta: _OwnedMeta) -> None:
        """Deletes the object if no owner is left; else takes off the references that lead nowhere."""
        owners = self._sort(entry, meta)
        gone = {reference.uid for reference in [*owners.dangling, *owners.waiting]}
        if not gone:
            return
        if owners.solid:
            await self._change(resource, entry, _without_owners(gone))
            return
        policy = next((policy for policy, name in POLICIES if name in (meta.finalizers or ())), "Background")
        dependents = self._dependents_of(entry, meta)
        if owners.waiting and dependents:
            policy = "Foreground"
            if any(_decoder.decode(found.data).metadata.uid in self._waiting for _, found in dependents):
                # What it owns waits for its own dependents, perhaps for this one: somebody has to go first.
                await self._change(resource, entry, _unblocking)
                entry = self._store.get(resource.storage, *entry.key) or entry
        await self._delete(resource, entry, meta.uid, policy)

    def _sort(self, entry: Entry, meta: _OwnedMeta) -> Sorted:
        owners = Sorted([], [], [])
        for reference in meta.ownerReferences or ():
            if self._is_waiting(reference, entry):
                owners.waiting.append(reference)
            elif self._is_dangling(reference, entry):
                owners.dangling.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    def _is_waiting(self, reference: Reference, entry: Entry) -> bool:
        return reference.uid in self._waiting and not self._is_dangling(reference, entry)

    def _is_dangling(self, reference: Reference, entry: Entry) -> bool:
        """Whether an owner is certainly not there: nothing is deleted on a guess."""
        group, _, version = reference.apiVersion.rpartition("/")
        kind = self._registry.by_kind(group, version, reference.kind)
        if kind is None:  # it may exist for all we know, unless it was seen to go
            return reference.uid in self._gone
        if kind.namespaced and not entry.key[0]:  # no object of no namespace can have an owner in one: this is no owner at all
            return False
        place = (kind.storage, (entry.key[0] if kind.namespaced else "", reference.name))
        return self._places.get(reference.uid) != place

    def _dependents_of(self, entry: Entry, meta: _OwnedMeta) -> list[tuple[str, Entry]]:
        """Storage and entry of what an object owns. A reference across namespaces does not count, whatever it says."""
        found = []
        for storage, key in self._dependents.get(meta.uid, ()):
            dependent = self._store.get(storage, *key) if not entry.key[0] or key[0] == entry.key[0] else None
            if dependent is not None:
                found.append((storage, dependent))
        return found

    async def _wait_for_dependents(self, resource: Resource, entry: Entry, meta: _OwnedMeta) -> None:
        blocking = 0
        for storage, found in self._dependents_of(entry, meta):
            references = _decoder.decode(found.data).metadata.ownerReferences or []
            blocking += any(ref.uid == meta.uid and ref.blockOwnerDeletion for ref in references)
            self.queue.add((storage, found.key))
        if not blocking:
            await self._change(resource, entry, _without_finalizer(FOREGROUND))

    async def _orphan(self, resource: Resource, entry: Entry, meta: _OwnedMeta) -> None:
        for storage, dependent in self._dependents_of(entry, meta):
            kind = self._resource(storage)
            if kind is not None:
                await self._change(kind, dependent, _without_owners({meta.uid}))
        await self._change(resource, entry, _without_finalizer(ORPHAN))

    async def _change(self, resource: Resource, entry: Entry, change: Callable[[Json], Json]) -> None:
        call = Call(COLLECTOR, QUIET, "PatchOptions")
        try:
            await self._writer.modify(resource, change, call, namespace=entry.key[0], name=entry.key[1])
        except ApiError as error:
            if error.code != 404:
                raise

    async def _delete(self, resource: Resource, entry: Entry, uid: str, policy: str) -> None:
        """Deletes the object that was judged, in the version that was: in a newer one it may have found an owner."""
        preconditions: Json = {"uid": uid, "resourceVersion": str(entry.rv)}
        body: Json = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "preconditions": preconditions}
        body["propagationPolicy"] = policy
        options = DeleteOptions(policy=policy, uid=uid, rv=str(entry.rv), shown=body)
        try:
            await self._deleter.remove(resource, *entry.key, options=options, user=COLLECTOR, warnings=[])
        except ApiError as error:
            if error.code != 404:
                raise

    def _resource(self, storage: str) -> Resource | None:
        return next(_served(self._registry, storage), None)


def _served(registry: Registry, storage: str) -> Iterator[Resource]:
    """The resources of a storage, the one in whose version it is kept first."""
    found = [resource for resource in registry if resource.storage == storage]
    yield from sorted(found, key=lambda resource: resource.api_version != resource.storage_version)


def _without_owners(uids: set[str]) -> Callable[[Json], Json]:
    def change(live: Json) -> Json:
        meta = dict(live["metadata"])
        kept = [reference for reference in meta.get("ownerReferences") or [] if reference["uid"] not in uids]
        meta["ownerReferences"] = kept
        if not kept:
            del meta["ownerReferences"]
        return {**live, "metadata": meta}

    return change


def _unblocking(live: Json) -> Json:
    references = [{**reference, "blockOwnerDeletion": False} for reference in live["metadata"].get("ownerReferences") or []]
    return {**live, "metadata": {**live["metadata"], "ownerReferences": references}}


def _without_finalizer(name: str) -> Callable[[Json], Json]:
    def change(live: Json) -> Json:
        meta = dict(live["metadata"])
        kept = [finalizer for finalizer in meta.get("finalizers") or [] if finalizer != name]
        meta["finalizers"] = kept
        if not kept:
            del meta["finalizers"]
        return {**live, "metadata": meta}

    return change
