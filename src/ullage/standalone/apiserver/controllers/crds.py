"""CustomResourceDefinitions come to life: names are accepted, versions are served, a deleted one takes its objects with it."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from ullage.standalone.apiserver.auth.users import SELF
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue
from ullage.standalone.apiserver.crd.names import Reserved, is_own_group, storage_of
from ullage.standalone.apiserver.crd.rules import accept, is_true, resources_of
from ullage.standalone.apiserver.crd.strategy import CLEANUP
from ullage.standalone.apiserver.handlers.calls import Call, Change, Source
from ullage.standalone.apiserver.handlers.deletes import Deleter
from ullage.standalone.apiserver.handlers.writes import Writer
from ullage.standalone.apiserver.kinds.builtin import builtin_storages
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.write_options import internal
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.entries import Entry, Event
from ullage.standalone.apiserver.storage.store import Store
from ullage.times import timestamp

logger = logging.getLogger(__name__)

GROUP = "apiextensions.k8s.io"
PLURAL = "customresourcedefinitions"
STORAGE = f"{PLURAL}.{GROUP}"
QUIET = internal("kube-apiserver")


class CrdController:
    """The controller. What it serves follows the store: `registry` is brought up to date in the event's own step."""

    def __init__(self, store: Store, *, registry: Registry, writer: Writer, deleter: Deleter, source: Source) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._source = source
        self._served: dict[str, Json] = {}  # definition to the spec it is served by
        self.queue: WorkQueue[str] = WorkQueue(self._process, name="crd-controller")
        for entry in store.items(STORAGE):
            self._follow(entry.obj(), since=entry.rv)
            self.queue.add(entry.key[1])
        store.listeners.append(self._on_event)

    def _on_event(self, storage: str, event: Event) -> None:
        if storage in self._store.closed and event.type != "MODIFIED":
            self.queue.add(storage)  # one of its objects went, or was created just before its kind began to go
        if storage != STORAGE:
            return
        crd = msgspec.json.decode(event.data)
        if event.type == "DELETED":
            self._withdraw(crd)
        else:
            self._follow(crd, since=event.rv)
        self.queue.add(event.key[1])
        if _frees_names(event, crd):  # they may be another's now
            for other in self._kin(event.key[1]):
                self.queue.add(other.key[1])

    def _kin(self, name: str) -> list[Entry]:
        """The definitions of a group: the only ones whose names may clash. A definition is called `<plural>.<group>`."""
        group = name.partition(".")[2]
        return [entry for entry in self._store.items(STORAGE) if entry.key[1].partition(".")[2] == group]

    def _follow(self, crd: Json, *, since: int) -> None:
        """Serves what a definition says; when it goes, nothing is created any more. The storage has the definition's name."""
        name = crd["metadata"]["name"]
        self._close(name, going=bool(crd["metadata"].get("deletionTimestamp")))
        try:
            self._serve(crd, since=since)
        except Exception:  # whatever is wrong with one definition, the others are served, and the server starts
            logger.exception("a definition cannot be served", extra={"definition": name})

    def _close(self, name: str, *, going: bool) -> None:
        """Lets nothing more into a definition's storage while it goes; never into that of a built-in kind."""
        if going and name not in builtin_storages():
            self._store.closed.add(name)
        else:
            self._store.closed.discard(name)

    def _serve(self, crd: Json, *, since: int) -> None:
        name = crd["metadata"]["name"]
        if not is_true(crd, "Established") or is_own_group(crd["spec"]["group"]):
            return
        held = {"spec": crd["spec"], "names": dig(crd, "status", "acceptedNames")}
        if self._served.get(name) == held:
            return
        uid = crd["metadata"]["uid"]
        resources = [replace(resource, since=since, definition=uid) for resource in resources_of(crd)]
        if name in self._served:
            self._registry.remove(crd["spec"]["group"], crd["spec"]["names"]["plural"])
        for resource in resources:
            self._registry.add(resource)
        self._served[name] = held
        self._store.wake(name)  # watches of a version that is no longer served end, others see the new schema

    def _withdraw(self, crd: Json) -> None:
        name, spec = crd["metadata"]["name"], crd["spec"]
        self._close(name, going=True)  # until it comes again: requests that were let in before may still be on their way
        if self._served.pop(name, None) is not None:
            self._registry.remove(spec["group"], spec["names"]["plural"])
        self._store.forget(name)

    async def _process(self, name: str) -> None:
        entry = self._store.get(STORAGE, "", name)
        if entry is None:
            self._store.forget(name)
            return
        crd = entry.obj()
        if crd["metadata"].get("deletionTimestamp"):
            await self._clean(crd)
            return
        if name in builtin_storages():  # left by a release that took such names: it is not served, and may be deleted
            return
        others = [other.obj() for other in self._kin(name) if other.key[1] != name]
        now = timestamp(self._source.now())

        def change(live: Json) -> Json:
            """From the newest state: a change of the spec that came in between has a say in the status."""
            return {**live, "metadata": dict(live["metadata"]), "status": accept(live, others, now)}

        if change(crd)["status"] != crd.get("status"):
            await self._modify(name, "status", change)

    async def _clean(self, crd: Json) -> None:
        """Deletes every object of the kind; the last one's end brings us here again."""
        name = crd["metadata"]["name"]
        if CLEANUP not in (crd["metadata"].get("finalizers") or ()):
            return
        if not await self._empty(crd):
            return  # finalizers hold some, or one was created just before its kind began to go

        def change(live: Json) -> Json:
            kept = [finalizer for finalizer in live["metadata"].get("finalizers") or [] if finalizer != CLEANUP]
            meta = {**live["metadata"], "finalizers": kept}
            if not kept:
                del meta["finalizers"]
            return {**live, "metadata": meta}

        await self._modify(name, "", change)

    async def _empty(self, crd: Json) -> bool:
        """Asks the definition's own objects to go; whether none is left. One that has no storage has no objects."""
        try:
            storage = storage_of(crd)
        except Reserved:
            return True
        failures = await self._deleter.remove_all(self._stored_version(crd), user=SELF)
        if failures:
            raise RuntimeError(f"{storage}: {len(failures)} deletions failed, the first: {failures[0]}")
        return not self._store.count(storage) and not self._store.staged(storage)

    def _stored_version(self, crd: Json) -> Resource:
        """The version in which objects are kept. It need not be served, and they have to go nevertheless."""
        spec = crd["spec"]
        found = self._registry.versions(spec["group"], spec["names"]["plural"])
        kept = next((one for one in found if one.custom is not None and one.api_version == one.storage_version), None)
        if kept is not None:
            return kept
        versions = [{**version, "served": True} for version in spec["versions"] if version.get("storage")]
        return resources_of({**crd, "spec": {**spec, "versions": versions}})[0]

    async def _modify(self, name: str, subresource: str, change: Change) -> None:
        call = Call(SELF, QUIET, "UpdateOptions", subresource=subresource)
        resource = self._registry.need(GROUP, "v1", PLURAL)
        try:
            await self._writer.modify(resource, change, call, namespace="", name=name)
        except ApiError as error:
            if error.code != 404:
                raise


def _frees_names(event: Event, crd: Json) -> bool:
    if event.before is None:
        return False
    return event.type == "DELETED" or not _names(msgspec.json.decode(event.before)) <= _names(crd)


def _names(crd: Json) -> set[str]:
    """Every name that a definition holds."""
    held = dig(crd, "status", "acceptedNames") or {}
    return {held.get(key, "") for key in ("plural", "singular", "kind", "listKind")} | set(held.get("shortNames") or ())
