"""The end of a namespace: all that is in it goes, and only then the namespace itself. And its beginning: what each is given."""

from __future__ import annotations

from collections.abc import Iterator

from ullage.standalone.apiserver.auth.bootstrap import default_service_account
from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue
from ullage.standalone.apiserver.handlers.calls import Call, Change, Source
from ullage.standalone.apiserver.handlers.deletes import Deleter
from ullage.standalone.apiserver.handlers.writes import Writer
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.request.write_options import internal
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.entries import Event
from ullage.standalone.apiserver.storage.store import Store
from ullage.times import timestamp

NAMESPACES = "namespaces"
ACCOUNTS = "serviceaccounts"
PODS = "pods"
CONTROLLER = User("system:serviceaccount:kube-system:namespace-controller", groups=(MASTERS,))
QUIET = internal("namespace-controller")


class NamespaceController:
    def __init__(self, store: Store, *, registry: Registry, writer: Writer, deleter: Deleter, source: Source) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._source = source
        self._going: set[str] = set()
        self.queue: WorkQueue[str] = WorkQueue(self._process, name="namespace-controller", workers=4)
        store.listeners.append(self._on_event)
        for entry in store.items(NAMESPACES):
            self.queue.add(entry.key[1])

    def _on_event(self, storage: str, event: Event) -> None:
        if storage == NAMESPACES:
            name = event.key[1]
            if event.type == "DELETED":
                self._going.discard(name)
            else:
                self.queue.add(name)
        elif event.type == "MODIFIED":
            return
        elif event.key[0] in self._going or (storage == ACCOUNTS and event.type == "DELETED"):
            self.queue.add(event.key[0])  # something went, or was created just before the namespace began to go

    async def _process(self, name: str) -> None:
        entry = self._store.get(NAMESPACES, "", name)
        if entry is None:
            return
        namespace = entry.obj()
        if not namespace["metadata"].get("deletionTimestamp"):
            await self._furnish(name)
            return
        self._going.add(name)
        failures = await self._empty(name)
        remaining = self._remaining(name)
        if remaining or failures:
            await self._report(namespace, remaining, failures)
            if failures:
                raise RuntimeError(f"namespace {name}: {len(failures)} deletions failed")
            return
        await self._finalize(name)

    async def _furnish(self, name: str) -> None:
        """The ServiceAccount that every namespace has."""
        obj = default_service_account(name)
        if self._store.head(ACCOUNTS, name, obj["metadata"]["name"]) is not None:
            return
        call = Call(CONTROLLER, QUIET, "CreateOptions")
        try:
            await self._writer.insert(self._registry.need("", "v1", ACCOUNTS), obj, call, namespace=name)
        except ApiError as error:
            if error.code not in (403, 404, 409):  # the namespace went meanwhile, or somebody was quicker
                raise

    async def _empty(self, name: str) -> list[str]:
        """Asks everything in the namespace to go. Returns what could not be asked.

        Pods first, and the rest once none is left: what guards a pod or is mounted in it must not go before it does.
        """
        pods = self._registry.need("", "v1", PODS)
        failures = await self._deleter.remove_all(pods, namespace=name, user=CONTROLLER)
        if self._store.items(PODS, name):
            return failures
        for resource in self._contents():
            failures += await self._deleter.remove_all(resource, namespace=name, user=CONTROLLER)
        return failures

    def _contents(self) -> Iterator[Resource]:
        """Each namespaced kind once, in the version in which it is stored."""
        seen = set()
        for resource in sorted(self._registry, key=lambda r: r.api_version != r.storage_version):
            if resource.namespaced and resource.storage not in seen and "delete" in resource.verbs:
                seen.add(resource.storage)
                yield resource

    def _remaining(self, name: str) -> list[tuple[Resource, list[list[str]]]]:
        """What is still there of what was asked to go, with the finalizers that hold each object."""
        found = []
        only_pods = bool(self._store.items(PODS, name))
        for resource in self._contents():
            if only_pods and resource.storage != PODS:
                continue
            held = [entry.obj()["metadata"].get("finalizers") or [] for entry in self._store.items(resource.storage, name)]
            if held:
                found.append((resource, held))
        return found

    async def _report(self, namespace: Json, remaining: list[tuple[Resource, list[list[str]]]], failures: list[str]) -> None:
        """Conditions that say why a namespace is still there, in the words that people search for."""
        kinds = ", ".join(f"{resource.group_resource} has {len(held)} resource instances" for resource, held in remaining)
        counts: dict[str, int] = {}
        for _, held in remaining:
            for finalizers in held:
                for finalizer in finalizers:
                    counts[finalizer] = counts.get(finalizer, 0) + 1
        holders = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(counts.items()))
        now = timestamp(self._source.now())
        remain = f"Some resources are remaining: {kinds}" if kinds else ""
        wait = f"Some content in the namespace has finalizers remaining: {holders}" if holders else ""
        conditions = [
            _condition("NamespaceDeletionDiscoveryFailure", "", _DISCOVERED),
            _condition("NamespaceDeletionGroupVersionParsingFailure", "", _PARSED),
            _condition("NamespaceDeletionContentFailure", "; ".join(failures), _DELETED),
            _condition("NamespaceContentRemaining", remain, _REMOVED),
            _condition("NamespaceFinalizersRemaining", wait, _FINISHED),
        ]
        old = {c["type"]: c for c in dig(namespace, "status", "conditions") or []}
        for condition in conditions:
            before = old.get(condition["type"])
            same = before is not None and before["status"] == condition["status"]
            condition["lastTransitionTime"] = before["lastTransitionTime"] if before and same else now
        await self._modify(namespace["metadata"]["name"], "status", lambda live: _with_conditions(live, conditions))

    async def _finalize(self, name: str) -> None:
        def change(live: Json) -> Json:
            kept = [finalizer for finalizer in dig(live, "spec", "finalizers") or [] if finalizer != "kubernetes"]
            return {**live, "metadata": dict(live["metadata"]), "spec": {**live.get("spec", {}), "finalizers": kept}}

        await self._modify(name, "finalize", change)

    async def _modify(self, name: str, subresource: str, change: Change) -> None:
        call = Call(CONTROLLER, QUIET, "UpdateOptions", subresource=subresource)
        try:
            await self._writer.modify(self._registry.need("", "v1", NAMESPACES), change, call, namespace=name, name=name)
        except ApiError as error:
            if error.code != 404:
                raise


# Of each condition: its reason if all is well, the message then, and its reason if not.
_DISCOVERED = ("ResourcesDiscovered", "All resources successfully discovered", "")
_PARSED = ("ParsedGroupVersions", "All legacy kube types successfully parsed", "")
_DELETED = ("ContentDeleted", "All content successfully deleted, may be waiting on finalization", "ContentDeletionFailed")
_REMOVED = ("ContentRemoved", "All content successfully removed", "SomeResourcesRemain")
_FINISHED = ("ContentHasNoFinalizers", "All content-preserving finalizers finished", "SomeFinalizersRemain")


def _condition(kind: str, problem: str, words: tuple[str, str, str]) -> Json:
    fine, message, trouble = words
    status, reason = ("True", trouble) if problem else ("False", fine)
    return {"type": kind, "status": status, "reason": reason, "message": problem or message}


def _with_conditions(live: Json, conditions: list[Json]) -> Json:
    status = {**live.get("status", {}), "conditions": conditions}
    return {**live, "metadata": dict(live["metadata"]), "status": status}
