"""CustomResourceDefinitions come to life: names are accepted, versions are served, and a deleted one takes its objects with it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.crd_rules import accept, is_true, resources_of
from ullage.standalone.apiserver.crd_strategy import CLEANUP
from ullage.standalone.apiserver.deletes import DeleteOptions, Deleter
from ullage.standalone.apiserver.options import WriteOptions
from ullage.standalone.apiserver.resources import Registry, Resource
from ullage.standalone.apiserver.status import ApiError, Json
from ullage.standalone.apiserver.store import Event, Store
from ullage.standalone.apiserver.views import rfc3339
from ullage.standalone.apiserver.workqueue import WorkQueue
from ullage.standalone.apiserver.writes import Call, Change, Source, Writer

GROUP = "apiextensions.k8s.io"
PLURAL = "customresourcedefinitions"
STORAGE = f"{PLURAL}.{GROUP}"
CONTROLLER = User("system:apiserver", groups=(MASTERS,))
QUIET = WriteOptions(dry_run=False, manager="kube-apiserver", validation="Ignore", force=None)
_BACKGROUND = DeleteOptions(
    policy="Background", shown={"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"}
)


class Definitions:
    """The controller. What it serves follows the store: `registry` is brought up to date in the event's own step."""

    def __init__(self, store: Store, *, registry: Registry, writer: Writer, deleter: Deleter, source: Source) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._source = source
        self._going: dict[str, str] = {}  # storage of the objects to the definition that waits for their end
        self._served: dict[str, Json] = {}  # definition to the spec it is served by
        self.queue: WorkQueue[str] = WorkQueue(self._process, name="crd-controller")
        for entry in store.items(STORAGE):
            self._serve(entry.obj(), since=entry.rv)
            self.queue.add(entry.key[1])
        store.listeners.append(self._on_event)

    def _on_event(self, storage: str, event: Event) -> None:
        if storage in self._going and event.type == "DELETED":
            self.queue.add(self._going[storage])
        if storage != STORAGE:
            return
        crd = msgspec.json.decode(event.data)
        name = event.key[1]
        if event.type == "DELETED":
            self._withdraw(crd)
        else:
            self._serve(crd, since=event.rv)
        for other in self._store.items(STORAGE):  # a name that came free may be another's now
            if event.type == "DELETED" or other.key[1] == name:
                self.queue.add(other.key[1])

    def _serve(self, crd: Json, *, since: int) -> None:
        name = crd["metadata"]["name"]
        if not is_true(crd, "Established"):
            return
        held = {"spec": crd["spec"], "names": crd["status"]["acceptedNames"]}
        if self._served.get(name) == held:
            return
        if name in self._served:
            self._registry.remove(crd["spec"]["group"], crd["spec"]["names"]["plural"])
        for resource in resources_of(crd):
            self._registry.add(replace(resource, since=since))
        self._served[name] = held

    def _withdraw(self, crd: Json) -> None:
        name, spec = crd["metadata"]["name"], crd["spec"]
        if self._served.pop(name, None) is not None:
            self._registry.remove(spec["group"], spec["names"]["plural"])
        self._going.pop(name, None)

    async def _process(self, name: str) -> None:
        entry = self._store.get(STORAGE, "", name)
        if entry is None:
            return
        crd = entry.obj()
        if crd["metadata"].get("deletionTimestamp"):
            await self._clean(crd)
            return
        others = [other.obj() for other in self._store.items(STORAGE) if other.key[1] != name]
        status = accept(crd, others, rfc3339(self._source.now()))
        if status != crd.get("status"):
            await self._modify(name, "status", lambda live: {**live, "metadata": dict(live["metadata"]), "status": status})

    async def _clean(self, crd: Json) -> None:
        """Deletes every object of the kind; the last one's end brings us here again."""
        name = crd["metadata"]["name"]
        if CLEANUP not in (crd["metadata"].get("finalizers") or ()):
            return
        self._going[name] = name  # the storage of a custom kind has its definition's name
        resource = self._any_version(crd)
        if resource is not None:
            for entry in self._store.items(resource.storage):
                try:
                    await self._deleter.remove(resource, *entry.key, options=_BACKGROUND, user=CONTROLLER, warnings=[])
                except ApiError as error:
                    if error.code != 404:
                        raise
            if self._store.count(resource.storage):
                return  # finalizers hold some

        def change(live: Json) -> Json:
            kept = [finalizer for finalizer in live["metadata"].get("finalizers") or [] if finalizer != CLEANUP]
            meta = {**live["metadata"], "finalizers": kept}
            if not kept:
                del meta["finalizers"]
            return {**live, "metadata": meta}

        await self._modify(name, "", change)

    def _any_version(self, crd: Json) -> Resource | None:
        spec = crd["spec"]
        versions = self._registry.versions(spec["group"], spec["names"]["plural"])
        return versions[0] if versions else None

    async def _modify(self, name: str, subresource: str, change: Change) -> None:
        call = Call(CONTROLLER, QUIET, "UpdateOptions", subresource=subresource)
        resource = self._registry.need(GROUP, "v1", PLURAL)
        try:
            await self._writer.modify(resource, change, call, namespace="", name=name)
        except ApiError as error:
            if error.code != 404:
                raise
