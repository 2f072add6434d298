"""delete and deletecollection: one state machine for every kind.

live ── something holds it (finalizers, dependents, a grace period) ──> going (deletionTimestamp) ──> gone
 └───── nothing holds it ────────────────────────────────────────────────────────────────────────────> gone
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.builtin import BuiltinAdmission
from ullage.standalone.apiserver.admission.webhooks.dispatch import Webhooks
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.handlers.calls import Source
from ullage.standalone.apiserver.handlers.kind_rules import KindRules
from ullage.standalone.apiserver.handlers.reads import Reader, wanted
from ullage.standalone.apiserver.handlers.writes import RETRIES
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.versions import view
from ullage.standalone.apiserver.objects import Json, is_terminating
from ullage.standalone.apiserver.request.answers import Answer, Stream, json_answer
from ullage.standalone.apiserver.request.delete_options import BACKGROUND, DeleteOptions, checked_options, delete_options
from ullage.standalone.apiserver.request.list_options import list_options
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import (
    ApiError,
    conflict,
    details_of,
    not_found,
)
from ullage.standalone.apiserver.storage.entries import Entry, Key
from ullage.standalone.apiserver.storage.store import Stale, Store
from ullage.times import timestamp

T = TypeVar("T")

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_FINALIZER = {"Foreground": FOREGROUND, "Orphan": ORPHAN}

# Kinds whose delete answers with the object even when it is gone at once.
_RETURNED = frozenset(
    {
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "storageclasses.storage.k8s.io",
    }
)
_DEFAULT_GRACE = 30
_AT_ONCE = 100  # deletes of a whole kind or namespace that share a commit


class Deleter:
    def __init__(
        self,
        store: Store,
        *,
        admission: BuiltinAdmission,
        webhooks: Webhooks,
        kinds: KindRules,
        source: Source,
        reader: Reader,
    ) -> None:
        self._store = store
        self._admission = admission
        self._webhooks = webhooks
        self._kinds = kinds
        self._source = source
        self._reader = reader

    async def delete(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        want = wanted(request, resource)
        options = await delete_options(request)
        if request.param("dryRun") and not options.dry_run:
            options = replace(options, dry_run=checked_options({"dryRun": request.query["dryRun"]}).dry_run)
        entry, gone = await self.remove(
            resource, request.target.namespace, request.target.name, options=options, user=user, warnings=request.warnings
        )
        if not gone or resource.group_resource in _RETURNED:
            return self._reader.one(request, resource, entry, want=want)
        obj = msgspec.json.decode(entry.data)
        status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        status["details"] = details_of(resource.group, resource.plural, entry.key[1], uid=obj["metadata"]["uid"])
        return json_answer(status)

    async def delete_collection(self, request: Request, resource: Resource, user: User) -> Answer | Stream:
        want = wanted(request, resource)
        options = replace(await delete_options(request), named=False)
        chosen = list_options(request, resource, watch=False)
        entries, meta = await self._reader.select(resource, chosen)

        async def one(entry: Entry) -> Entry | None:
            try:
                last, _ = await self.remove(resource, *entry.key, options=options, user=user, warnings=request.warnings)
            except ApiError as error:
                if error.code != 404:
                    raise
                return None
            return last

        removed: list[Entry] = []
        for first in range(0, len(entries), _AT_ONCE):
            removed += filter(None, await _together(one(entry) for entry in entries[first : first + _AT_ONCE]))
        return self._reader.listed(request, resource, removed, meta, want=replace(want, kind=""))

    async def remove(
        self, resource: Resource, namespace: str, name: str, *, options: DeleteOptions, user: User, warnings: list[str]
    ) -> tuple[Entry, bool]:
        """Deletes or begins to delete. Returns the object's last state and whether it is gone."""
        where = namespace if resource.namespaced else ""
        try:
            return await self._remove(resource, (where, name), options=options, user=user, warnings=warnings)
        except ApiError:
            # It may rest on a write that is still on its way to the disk, and nobody hears of that before it is there.
            await self._store.settled(resource.storage, where, name)
            raise

    async def _remove(
        self, resource: Resource, key: Key, *, options: DeleteOptions, user: User, warnings: list[str]
    ) -> tuple[Entry, bool]:
        namespace, name = key
        for _ in range(RETRIES):
            entry = self._store.head(resource.storage, *key)
            if entry is None:
                raise not_found(resource.group, resource.plural, name)
            live = view(resource).obj(entry.data, entry.rv)
            self._check_preconditions(resource, live, options)
            attrs = Attributes(
                operation="DELETE",
                resource=resource,
                subresource="",
                namespace=namespace,
                name=name if options.named else "",
                object=None,
                old=live,
                options=options.shown or {},
                user=user,
                dry_run=options.dry_run,
            )
            self._admission.admit(attrs)
            warnings += await self._webhooks.mutate(attrs)
            warnings += await self._webhooks.validate(attrs)
            try:
                return await self._step(resource, entry, live, options)
            except Stale:
                continue
        raise conflict(resource.group, resource.plural, name)

    async def remove_all(self, resource: Resource, *, namespace: str = "", user: User) -> list[str]:
        """Asks every object of a kind (in a namespace) to go that was not asked already. Returns what could not be asked."""
        entries = [entry for entry in self._store.items(resource.storage, namespace) if _wants_asking(entry)]
        failures: list[str] = []
        for first in range(0, len(entries), _AT_ONCE):
            failures += filter(
                None, await _together(self._ask(resource, entry, user) for entry in entries[first : first + _AT_ONCE])
            )
        return failures

    async def _ask(self, resource: Resource, entry: Entry, user: User) -> str:
        try:
            await self.remove(resource, *entry.key, options=BACKGROUND, user=user, warnings=[])
        except ApiError as error:
            if error.code != 404:
                return f"{resource.group_resource} {entry.key[1]}: {error.message}"
        return ""

    def _check_preconditions(self, resource: Resource, live: Json, options: DeleteOptions) -> None:
        meta = live["metadata"]
        if options.uid and options.uid != meta["uid"]:
            text = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict(resource.group, resource.kind, meta["name"], text)
        if options.rv and options.rv != meta["resourceVersion"]:
            text = (
                f"the ResourceVersion in the precondition ({options.rv}) does not match the ResourceVersion in record "
                f"({meta['resourceVersion']}). The object might have been modified"
            )
            raise conflict(resource.group, resource.kind, meta["name"], text)

    async def _step(self, resource: Resource, entry: Entry, live: Json, options: DeleteOptions) -> tuple[Entry, bool]:
        meta = live["metadata"]
        before = msgspec.json.encode(live)
        meta["finalizers"] = self._finalizers(resource, live, options.policy)
        if not meta["finalizers"]:
            del meta["finalizers"]
        self._kinds.begin_delete(resource, live, timestamp(self._source.now()))
        grace = self._grace(resource, live, options)
        pod = resource.group_resource == "pods"
        # A pod's own grace period is what this delete may shorten: it holds only if the new one does.
        held = bool(meta.get("finalizers")) or grace > 0 or not (pod or self._kinds.released(resource, live))
        if held or pod:
            self._mark(resource, live, grace, forced=options.grace is not None)
        unchanged = held and msgspec.json.encode(live) == before
        if unchanged or options.dry_run:
            await self._store.settled(resource.storage, *entry.key)
        if unchanged:
            return entry, False
        stored = view(resource).stored(live)
        if options.dry_run:
            return Entry(entry.key, entry.rv, msgspec.json.encode(stored)), not held
        if held:
            return await self._store.stage(resource.storage, stored, expect=entry.rv), False
        return await self._store.stage_delete(resource.storage, stored, expect=entry.rv), True

    def _finalizers(self, resource: Resource, live: Json, policy: str) -> list[str]:
        """The policy's own finalizer joins or replaces the other's; without a policy they stay as they are."""
        found: Sequence[str] = live["metadata"].get("finalizers") or []
        if not policy:
            return list(found)
        kept = [name for name in found if name not in (FOREGROUND, ORPHAN)]
        wanted = _FINALIZER.get(policy)
        return [*kept, wanted] if wanted else kept

    def _grace(self, resource: Resource, live: Json, options: DeleteOptions) -> int:
        """Seconds a pod on a node is given to stop; nothing else waits."""
        if resource.group_resource != "pods":
            return 0
        if not live.get("spec", {}).get("nodeName") or live.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        if options.grace is not None:
            return max(options.grace, 0)
        given = live["spec"].get("terminationGracePeriodSeconds")
        return _DEFAULT_GRACE if given is None else int(given)

    def _mark(self, resource: Resource, live: Json, grace: int, *, forced: bool) -> None:
        """Sets the deletion time once; a shorter grace period moves it forward."""
        meta = live["metadata"]
        if "deletionTimestamp" in meta and not (forced and grace < meta.get("deletionGracePeriodSeconds", 0)):
            return
        now = self._source.now()
        if "generation" in meta and "deletionTimestamp" not in meta:
            meta["generation"] += 1
        meta["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
        if resource.group_resource == "namespaces":
            live.setdefault("status", {})["phase"] = "Terminating"
        else:
            meta["deletionGracePeriodSeconds"] = grace


def _wants_asking(entry: Entry) -> bool:
    """Whether a delete in the background would change an object: not where it is going already and waits for others."""
    if not is_terminating(entry.data):
        return True
    finalizers = entry.obj()["metadata"].get("finalizers") or []
    return FOREGROUND in finalizers or ORPHAN in finalizers


async def _together(deletes: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Side by side, so that they share a commit. All are over when the first failure is raised."""
    done = await asyncio.gather(*deletes, return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in done if not isinstance(outcome, BaseException)]
