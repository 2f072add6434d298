"""Owner references: what goes when its owner goes, what waits for it, and what is let go.

The collector keeps a graph of uids from the store's events and works through a queue of keys. Nothing in it is state: it is
rebuilt from the objects at start, and every step looks at them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.deletes import FOREGROUND, ORPHAN, DeleteOptions, Deleter
from ullage.standalone.apiserver.options import WriteOptions
from ullage.standalone.apiserver.resources import Registry, Resource
from ullage.standalone.apiserver.status import ApiError, Json
from ullage.standalone.apiserver.store import Entry, Event, Key, Store
from ullage.standalone.apiserver.workqueue import WorkQueue
from ullage.standalone.apiserver.writes import Call, Writer

COLLECTOR = User("system:serviceaccount:kube-system:generic-garbage-collector", groups=(MASTERS,))
QUIET = WriteOptions(dry_run=False, manager="garbage-collector", validation="Ignore", force=None)

Place = tuple[str, Key]  # storage and key


class Reference(msgspec.Struct, gc=False):
    uid: str = ""
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    blockOwnerDeletion: bool | None = None


class _Meta(msgspec.Struct, gc=False):
    uid: str
    ownerReferences: list[Reference] | None = None
    finalizers: list[str] | None = None
    deletionTimestamp: str | None = None


class _Owned(msgspec.Struct, gc=False):
    metadata: _Meta


_decoder = msgspec.json.Decoder(_Owned)


@dataclass(frozen=True, slots=True)
class Sorted:
    """An object's owners: there, never to come back, and waiting for their dependents."""

    solid: list[Reference]
    dangling: list[Reference]
    waiting: list[Reference]


class Garbage:
    def __init__(self, store: Store, *, registry: Registry, writer: Writer, deleter: Deleter) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._places: dict[str, Place] = {}  # uid to where it lives
        self._dependents: dict[str, set[Place]] = {}  # owner's uid to what it owns
        self._owners: dict[Place, tuple[str, ...]] = {}
        self.queue: WorkQueue[Place] = WorkQueue(self._process, name="garbage-collector")
        for storage in store.storages():
            for entry in store.items(storage):
                self._note(storage, entry.key, _decoder.decode(entry.data).metadata)
        store.listeners.append(self._on_event)
        for place in list(self._owners):
            self.queue.add(place)

    def _on_event(self, storage: str, event: Event) -> None:
        meta = _decoder.decode(event.data).metadata
        place = (storage, event.key)
        if event.type == "DELETED":
            self._forget(place)
            self._places.pop(meta.uid, None)
            for dependent in self._dependents.get(meta.uid, ()):
                self.queue.add(dependent)
            for owner in meta.ownerReferences or ():
                if (waiting := self._places.get(owner.uid)) is not None:
                    self.queue.add(waiting)
            return
        self._note(storage, event.key, meta)
        if meta.ownerReferences or (meta.deletionTimestamp and meta.finalizers):
            self.queue.add(place)

    def _note(self, storage: str, key: Key, meta: _Meta) -> None:
        place = (storage, key)
        self._places[meta.uid] = place
        if place in self._owners:
            self._forget(place)
        if meta.ownerReferences:
            self._owners[place] = tuple(reference.uid for reference in meta.ownerReferences)
            for reference in meta.ownerReferences:
                self._dependents.setdefault(reference.uid, set()).add(place)
        if meta.deletionTimestamp and FOREGROUND in (meta.finalizers or ()):
            self.queue.add(place)

    def _forget(self, place: Place) -> None:
        for uid in self._owners.pop(place, ()):
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
        elif meta.ownerReferences and not (meta.deletionTimestamp and not finalizers):
            await self._judge(resource, entry, meta)

    async def _judge(self, resource: Resource, entry: Entry, meta: _Meta) -> None:
        """Deletes the object if no owner is left; else takes off the references that lead nowhere."""
        owners = self._sort(entry, meta)
        if owners.solid:
            gone = {reference.uid for reference in [*owners.dangling, *owners.waiting]}
            if gone:
                await self._change(resource, entry, _without_owners(gone))
        elif owners.dangling or owners.waiting:
            if meta.deletionTimestamp:
                return
            blocked = bool(owners.waiting) and meta.uid in self._dependents
            policy = "Foreground" if blocked else "Background"
            await self._delete(resource, entry, meta.uid, policy)

    def _sort(self, entry: Entry, meta: _Meta) -> Sorted:
        owners = Sorted([], [], [])
        for reference in meta.ownerReferences or ():
            place = self._places.get(reference.uid)
            if place is None or (place[1][0] and place[1][0] != entry.key[0]):
                (owners.solid if self._unknown(reference) else owners.dangling).append(reference)
                continue
            owner = self._store.get(place[0], *place[1])
            state = _decoder.decode(owner.data).metadata if owner else None
            if state is not None and state.deletionTimestamp and FOREGROUND in (state.finalizers or ()):
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    def _unknown(self, reference: Reference) -> bool:
        """An owner of a kind that is not served may exist for all we know: nothing is deleted on a guess."""
        group, _, version = reference.apiVersion.rpartition("/")
        return self._registry.by_kind(group, version, reference.kind) is None

    async def _wait_for_dependents(self, resource: Resource, entry: Entry, meta: _Meta) -> None:
        blocking = 0
        for place in list(self._dependents.get(meta.uid, ())):
            found = self._store.get(place[0], *place[1])
            if found is None:
                continue
            references = _decoder.decode(found.data).metadata.ownerReferences or []
            blocking += any(ref.uid == meta.uid and ref.blockOwnerDeletion for ref in references)
            self.queue.add(place)
        if not blocking:
            await self._change(resource, entry, _without_finalizer(FOREGROUND))

    async def _orphan(self, resource: Resource, entry: Entry, meta: _Meta) -> None:
        for storage, key in list(self._dependents.get(meta.uid, ())):
            dependent, kind = self._store.get(storage, *key), self._resource(storage)
            if dependent is not None and kind is not None:
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
        body = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": policy}
        options = DeleteOptions(policy=policy, uid=uid, shown=body)
        try:
            await self._deleter.remove(resource, *entry.key, options=options, user=COLLECTOR, warnings=[])
        except ApiError as error:
            if error.code not in (404, 409):
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


def _without_finalizer(name: str) -> Callable[[Json], Json]:
    def change(live: Json) -> Json:
        meta = dict(live["metadata"])
        kept = [finalizer for finalizer in meta.get("finalizers") or [] if finalizer != name]
        meta["finalizers"] = kept
        if not kept:
            del meta["finalizers"]
        return {**live, "metadata": meta}

    return change
