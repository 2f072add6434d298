"""The one way into the store: what every create, update, patch and apply goes through.

    insert    admit → name and identify → validate → validating webhooks → store, if the name is free
    modify    read the newest → change → admit → validate → validating webhooks → store, if it is still the newest

Webhooks are slow and the world moves on while they think; so the last step is a compare-and-swap, and a change that does not
insist on a version is computed again on what came in between.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.builtin import BuiltinAdmission
from ullage.standalone.apiserver.admission.quotas.enforce import Quotas
from ullage.standalone.apiserver.admission.webhooks.dispatch import Webhooks
from ullage.standalone.apiserver.admission.webhooks.outcome import reread
from ullage.standalone.apiserver.fields.managers import track_scale, track_update
from ullage.standalone.apiserver.handlers.calls import Call, Change, Source, Written
from ullage.standalone.apiserver.handlers.changes import (
    check_preconditions,
    count_generation,
    is_unversioned,
    same,
    validate_changed,
    validate_new,
)
from ullage.standalone.apiserver.handlers.endpoints import reset_fields, written_part
from ullage.standalone.apiserver.handlers.kind_rules import KindRules
from ullage.standalone.apiserver.handlers.scale import replicas_path
from ullage.standalone.apiserver.kinds.metadata import carry_metadata, finalizer_warnings
from ullage.standalone.apiserver.kinds.resources import Resource, shape_of
from ullage.standalone.apiserver.kinds.versions import ordered, view
from ullage.standalone.apiserver.limits.semaphore import WORK_BYTES, FairSemaphore
from ullage.standalone.apiserver.limits.threads import cost_of, offload
from ullage.standalone.apiserver.objects import Json, is_terminating
from ullage.standalone.apiserver.status import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    namespace_terminating,
    not_found,
)
from ullage.standalone.apiserver.storage.entries import Entry, Key, Write
from ullage.standalone.apiserver.storage.store import Stale, Store
from ullage.times import timestamp

RETRIES = 5  # of a patch whose object changed under it, as on kube-apiserver
NAME_TRIES = 8  # of a generated name that is taken


class Writer:
    def __init__(
        self,
        store: Store,
        *,
        admission: BuiltinAdmission,
        webhooks: Webhooks,
        kinds: KindRules,
        source: Source,
        quotas: Quotas,
    ) -> None:
        self._store = store
        self._quotas = quotas
        self._admission = admission
        self._webhooks = webhooks
        self._kinds = kinds
        self._source = source
        self._room = FairSemaphore(WORK_BYTES, share=WORK_BYTES // 2)  # for large objects that are being changed

    # --- create ---

    async def insert(self, resource: Resource, obj: Json, call: Call, *, namespace: str) -> Written:
        self._fit_namespace(resource, obj["metadata"], namespace)
        meta = obj["metadata"]
        if not is_unversioned(meta):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        self._check_place(resource, meta)
        strategy = self._kinds.strategy(resource)
        await offload(call.size, partial(self._complete, resource, obj, call))
        attrs = self._attributes("CREATE", resource, call, namespace=namespace, obj=obj, old=None)
        self._admission.admit(attrs)
        call.warnings += await self._webhooks.mutate(attrs)
        obj = self._admitted(resource, attrs, obj)
        generated = not obj["metadata"].get("name") and obj["metadata"].get("generateName")
        for attempt in range(NAME_TRIES):
            self._identify(resource, obj, strategy_generation=strategy.generation)
            if strategy.unstored_status:
                obj.pop("status", None)
            self._kinds.allocate(resource, obj)
            strategy.prepare_create(obj)
            await offload(call.size, partial(validate_new, resource, strategy, obj))
            if resource.custom is not None and not attempt:
                call.warnings += finalizer_warnings(obj["metadata"], None)
            attrs.object, attrs.name = obj, obj["metadata"]["name"]
            self._admission.validate(attrs)
            call.warnings += await self._webhooks.validate(attrs)
            try:
                return await self._store_new(resource, obj, call, attrs)
            except Stale:
                if not generated or attempt == NAME_TRIES - 1:
                    raise await self._taken(resource, obj["metadata"]) from None
                del obj["metadata"]["name"]
        raise AssertionError("unreachable")

    async def _taken(self, resource: Resource, meta: Json) -> ApiError:
        await self._store.settled(resource.storage, meta.get("namespace", ""), meta["name"])
        error = already_exists(resource.group, resource.plural, meta["name"])
        holder = self._store.head(resource.storage, meta.get("namespace", ""), meta["name"])
        if holder is not None and holder.obj()["metadata"].get("deletionTimestamp"):
            error.message = f"object is being deleted: {error.message}"
        return error

    def _check_place(self, resource: Resource, meta: Json) -> None:
        """Nothing comes into being in what is on its way out: whoever cleans up would not see it.

        Asked once more right before the write: webhooks take their time, and a namespace may go meanwhile.
        """
        shown = meta.get("name") or meta.get("generateName", "")
        if resource.storage in self._store.closed:
            raise forbidden(
                resource.group, resource.plural, shown, "create not allowed while custom resource definition is terminating"
            )
        if not resource.namespaced:
            return
        namespace = meta["namespace"]
        holder = self._store.head("namespaces", "", namespace)
        if holder is None:
            raise not_found("", "namespaces", namespace)
        if is_terminating(holder.data):
            raise namespace_terminating(resource.group, resource.plural, shown, namespace=namespace)

    async def _store_new(self, resource: Resource, obj: Json, call: Call, attrs: Attributes) -> Written:
        stored = view(resource).stored(obj)
        meta = obj["metadata"]
        self._check_place(resource, meta)
        counted = self._quotas.check(attrs)  # from here on nothing is awaited until it is written
        if call.options.dry_run:
            if self._store.head(resource.storage, meta.get("namespace", ""), meta["name"]) is not None:
                raise Stale
            return Written(_unstored(stored), created=True)
        return Written(await self._durable(Write(resource.storage, stored, 0), counted), created=True)

    async def _durable(self, write: Write, counted: list[Write]) -> Entry:
        """The object, when it and the quotas that count it are on the disk."""
        entry, *_ = await asyncio.gather(*self._store.stage_all([write, *counted]))
        return entry

    def _fit_namespace(self, resource: Resource, meta: Json, namespace: str) -> None:
        if not resource.namespaced:
            meta.pop("namespace", None)
            return
        sent = meta.setdefault("namespace", namespace)
        if not sent:
            meta["namespace"] = namespace
        elif sent != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _identify(self, resource: Resource, obj: Json, *, strategy_generation: bool) -> None:
        """Name, uid and birth: what a create has only from here on."""
        meta = obj["metadata"]
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = f"{meta['generateName'][:58]}{self._source.suffix()}"
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
            meta.pop(key, None)
        meta["uid"] = self._source.new_uid()
        meta["creationTimestamp"] = timestamp(self._source.now())
        if strategy_generation:
            meta["generation"] = 1
        else:
            meta.pop("generation", None)

    # --- update ---

    async def modify(
        self, resource: Resource, change: Change, call: Call, *, namespace: str, name: str, insist: bool = False
    ) -> Written:
        """Changes an object that exists. `insist`: an intervening write is a conflict, not a reason to try again."""
        where = namespace if resource.namespaced else ""
        try:
            return await self._modify(resource, change, call, key=(where, name), insist=insist)
        except ApiError:
            # It may rest on a write that is still on its way to the disk, and nobody hears of that before it is there.
            await self._store.settled(resource.storage, where, name)
            raise

    async def _modify(self, resource: Resource, change: Change, call: Call, *, key: Key, insist: bool) -> Written:
        name = key[1]
        for _ in range(RETRIES):
            entry = self._store.head(resource.storage, *key)
            if entry is None:
                raise not_found(resource.group, resource.plural, name)
            size = max(call.size, len(entry.data))
            async with self._room.hold(cost_of(entry.data), call.user.name):
                live = view(resource).obj(entry.data, entry.rv)
                new = await offload(size, partial(change, live))
                check_preconditions(resource, new, live, patched=call.kind != "UpdateOptions", subresource=call.subresource)
                attrs = await self._admit_update(resource, new, live, call, size=size)
                try:
                    return await self._store_changed(resource, entry, attrs, live, call)
                except Stale:
                    if insist:
                        break
        raise conflict(resource.group, resource.plural, name)

    async def _admit_update(self, resource: Resource, new: Json, live: Json, call: Call, *, size: int) -> Attributes:
        """With the wanted object after defaults, ownership, admission and validation."""
        strategy = self._kinds.strategy(resource)
        self._fit_namespace(resource, new["metadata"], live["metadata"].get("namespace", ""))
        new["metadata"].setdefault("name", live["metadata"]["name"])
        carry_metadata(new["metadata"], live["metadata"])
        new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        new = await offload(size, partial(self._complete_change, resource, new, live, call))
        attrs = self._attributes("UPDATE", resource, call, namespace=live["metadata"].get("namespace", ""), obj=new, old=live)
        attrs.name = live["metadata"]["name"]
        self._admission.admit(attrs)
        call.warnings += await self._webhooks.mutate(attrs)
        if attrs.object is not new:
            new = written_part(resource, call.subresource, self._admitted(resource, attrs, new), live)
            carry_metadata(new["metadata"], live["metadata"])
            new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        if not call.subresource:
            strategy.prepare_update(new, live)
            self._kinds.allocate(resource, new)
        count_generation(resource, strategy, new=new, live=live, subresource=call.subresource)
        judge = partial(validate_changed, resource, strategy, new=new, live=live, subresource=call.subresource)
        await offload(size, judge)
        if resource.custom is not None and not call.subresource:
            call.warnings += finalizer_warnings(new["metadata"], live["metadata"])
        attrs.object = new
        self._admission.validate(attrs)
        call.warnings += await self._webhooks.validate(attrs)
        return attrs

    async def _store_changed(self, resource: Resource, entry: Entry, attrs: Attributes, live: Json, call: Call) -> Written:
        new = attrs.object
        if new is None:
            raise AssertionError("a write has an object")
        stored = view(resource).stored(new)
        leaving = bool(new["metadata"].get("deletionTimestamp")) and self._kinds.released(resource, new)
        if call.options.dry_run or (same(new, live) and not leaving):
            await self._store.settled(resource.storage, *entry.key)
        if same(new, live) and not leaving:
            return Written(entry)
        counted = self._quotas.check(attrs)  # from here on nothing is awaited until it is written
        if call.options.dry_run:
            return Written(_unstored(stored), deleted=leaving)
        if leaving:
            # The last change is never stored: watchers see the object as it was, the caller as it would have been.
            gone = await self._store.stage_delete(resource.storage, view(resource).stored(live), expect=entry.rv)
            stored["metadata"]["resourceVersion"] = str(gone.rv)
            return Written(Entry(gone.key, gone.rv, msgspec.json.encode(stored)), deleted=True)
        return Written(await self._durable(Write(resource.storage, stored, entry.rv), counted))

    # --- shared ---

    def _complete(self, resource: Resource, obj: Json, call: Call) -> None:
        """A new object with its defaults, and with the names of those who own its fields."""
        self._default(resource, obj)
        if not call.tracked:
            self._track(resource, None, obj, call)

    def _complete_change(self, resource: Resource, new: Json, live: Json, call: Call) -> Json:
        """The same of a changed object, as far as the endpoint may change it."""
        self._default(resource, new)
        new = written_part(resource, call.subresource, new, live)
        if not call.tracked:
            self._track(resource, live, new, call)
        return new

    def _default(self, resource: Resource, obj: Json) -> None:
        if resource.schema is not None:
            resource.schema.default(obj)
        self._kinds.strategy(resource).default(obj)

    def _admitted(self, resource: Resource, attrs: Attributes, sent: Json) -> Json:
        """The object that came out of the mutating webhooks; what they changed is read and defaulted like what was sent."""
        obj = attrs.object
        if obj is None:
            raise AssertionError("a write has an object")
        if obj is sent:
            return ordered(obj, resource.api_version, resource.kind)
        obj = reread(obj, resource)
        self._fit_namespace(resource, obj["metadata"], attrs.namespace)
        self._default(resource, obj)
        return obj

    def _track(self, resource: Resource, live: Json | None, new: Json, call: Call) -> None:
        if call.subresource == "scale" and live is not None:
            path = replicas_path(resource)
            track_scale(live, new, manager=call.options.manager, api_version=resource.api_version, path=path)
            return
        track_update(
            live,
            new,
            manager=call.options.manager,
            subresource=call.subresource,
            api_version=resource.api_version,
            time=timestamp(self._source.now()),
            shape=shape_of(resource),
            reset=reset_fields(resource, call.subresource),
        )

    def _attributes(
        self, operation: str, resource: Resource, call: Call, *, namespace: str, obj: Json, old: Json | None
    ) -> Attributes:
        return Attributes(
            operation=operation,
            resource=resource,
            subresource=call.subresource,
            namespace=namespace if resource.namespaced or resource.plural == "namespaces" else "",
            name=obj["metadata"].get("name", ""),
            object=obj,
            old=old,
            options=call.review_options("CreateOptions" if operation == "CREATE" else "UpdateOptions"),
            user=call.user,
            dry_run=call.options.dry_run,
        )


def _unstored(obj: Json) -> Entry:
    """What a dry run answers with: the object as it would have been, at the version it has."""
    meta = obj["metadata"]
    return Entry((meta.get("namespace", ""), meta["name"]), int(meta.get("resourceVersion") or 0), msgspec.json.encode(obj))
