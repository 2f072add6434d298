"""ResourceQuotas against the store: what counts is checked, and counted, in the moment in which it is stored.

Between the look at the quotas and the write of the object nothing else happens, so of two that fit alone and not together one
is refused. What a quota says is used is written along with the object. One that was not counted yet is counted on the spot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ullage.clock import Clock
from ullage.pods.resources import Amounts
from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.quotas.check import (
    Growth,
    counts_as,
    fit,
    hard_of,
    is_about,
    is_counted,
    recount,
    status_of,
)
from ullage.standalone.apiserver.admission.quotas.usage import CLAIMS, COUNT, PODS, SERVICES, is_checked_on_update
from ullage.standalone.apiserver.kinds.resources import Registry, Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import forbidden
from ullage.standalone.apiserver.storage.entries import Entry, Event, Key, Write
from ullage.standalone.apiserver.storage.store import Store

QUOTAS: Final = "resourcequotas"
RESIZE: Final = "resize"
_CORE: Final = (PODS, CLAIMS, SERVICES, "configmaps", "secrets", "replicationcontrollers", QUOTAS)
_CHANGING: Final = (PODS, CLAIMS, SERVICES)  # others count as one for as long as they are there


class Quotas:
    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    def check(self, attrs: Attributes) -> list[Write]:
        """The quotas that count the object, to be stored along with it. Raises where it does not fit. To be called right before
        it is stored, with nothing awaited in between."""
        asked = _asked(attrs)
        if asked is None:
            return []
        entries = {entry.key[1]: entry for entry in self._newest(QUOTAS, attrs.namespace)}
        concerned = [quota for quota in (entry.obj() for entry in entries.values()) if is_about(quota, asked.resource)]
        if not concerned:
            return []
        quotas = [self._up_to_date(quota, attrs.namespace) for quota in concerned]
        found = fit(asked, quotas, self._clock.now())
        if isinstance(found, str):
            name = attrs.name or (attrs.object or {}).get("metadata", {}).get("generateName", "")
            raise forbidden(asked.resource.group, asked.resource.plural, name, found)
        return [Write(QUOTAS, _with(quota, used), entries[quota["metadata"]["name"]].rv) for quota, used in found.used]

    def settle(self, key: Key) -> asyncio.Future[Entry] | None:
        """Counts for a quota anew, and writes it where it said something else."""
        entry = self._store.head(QUOTAS, *key)
        if entry is None:
            return None
        quota = entry.obj()
        settled = _with(quota, self._recounted(quota, key[0]))
        return None if settled == quota else self._store.stage(QUOTAS, settled, expect=entry.rv)

    def unsettled(self, storage: str, event: Event) -> list[Key]:
        """The quotas of which a change may make untrue what they say is used: `check` has seen what comes, or grows."""
        namespace = event.key[0]
        if not namespace or (event.type == "ADDED" and storage != QUOTAS):
            return []
        return [entry.key for entry in self._store.items(QUOTAS, namespace) if self._unsettles(storage, event, entry)]

    def _unsettles(self, storage: str, event: Event, entry: Entry) -> bool:
        quota = entry.obj()
        before: Json = msgspec.json.decode(event.before) if event.before else {}
        if storage == QUOTAS and event.key == entry.key:
            return before.get("spec") != quota.get("spec")
        counted = next((one for one in self._resources(quota) if one.storage == storage and is_about(quota, one)), None)
        if counted is None or event.type == "ADDED":
            return False
        if event.type == "DELETED":
            return True
        if storage not in _CHANGING:
            return False
        now, after = self._clock.now(), msgspec.json.decode(event.data)
        return counts_as(quota, counted, before, now) != counts_as(quota, counted, after, now)

    def _newest(self, storage: str, namespace: str) -> Iterator[Entry]:
        """What is stored or about to be."""
        seen = set()
        for entry in self._store.items(storage, namespace):
            seen.add(entry.key)
            newest = self._store.head(storage, *entry.key)
            if newest is not None:
                yield newest
        yield from (one for one in self._store.staged(storage) if one.key[0] == namespace and one.key not in seen)

    def _up_to_date(self, quota: Json, namespace: str) -> Json:
        return quota if is_counted(quota) else _with(quota, self._recounted(quota, namespace))

    def _recounted(self, quota: Json, namespace: str) -> Amounts:
        counted = ((one, (entry.obj() for entry in self._newest(one.storage, namespace))) for one in self._resources(quota))
        return recount(quota, counted, self._clock.now())

    def _resources(self, quota: Json) -> Iterable[Resource]:
        """The kinds that a quota may be about."""
        yield from (self._registry.need("", "v1", plural) for plural in _CORE)
        for name in hard_of(quota):
            plural, _, group = name.removeprefix(COUNT).partition(".")
            if name.startswith(COUNT) and (group or plural not in _CORE):
                yield from self._registry.versions(group, plural)[:1]


def _asked(attrs: Attributes) -> Growth | None:
    """What a request would have counted; None where nothing is."""
    resource = attrs.resource
    if attrs.object is None or not attrs.namespace or not resource.namespaced:
        return None
    if attrs.subresource and not (resource.group_resource == PODS and attrs.subresource == RESIZE):
        return None
    if attrs.operation == "UPDATE" and not (is_checked_on_update(resource) or attrs.subresource == RESIZE):
        return None
    return Growth(resource, attrs.object, attrs.old)


def _with(quota: Json, used: Amounts) -> Json:
    return {**quota, "status": status_of(quota, used)}
