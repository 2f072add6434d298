"""Sets or removes one limit: that of a namespace, or that of a virtual machine in it. The API's actions and the commands do it
alike.

Each write is about one key of the quota object and leaves all else as others set it, so that two who set different limits at
the same moment both get what they asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from msgspec import UNSET

from ullage.kube.backoff import Backoff
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import Json
from ullage.quantity import Format, Quantity
from ullage.space.api import HARVESTER_QUOTAS, NAME, ResourceQuota, ResourceQuotaSpec, SnapshotLimit
from ullage.space.quota import allows_zero

TRIES: Final = 8
PAUSE: Final = Backoff(first=0.05, cap=1.0)
T = TypeVar("T", bound=Object)


class QuotaClient(Protocol):
    """What is needed of a client."""

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None: ...

    async def create(self, kind: Kind[T], obj: T) -> T: ...

    async def patch(
        self, kind: Kind[T], name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None, field_manager: str
    ) -> T: ...


@dataclass(frozen=True, slots=True)
class Limited:
    """What a limit is about: a namespace, or a virtual machine in it."""

    namespace: str
    vm: str = ""

    def __str__(self) -> str:
        return f"virtual machine {self.namespace}/{self.vm}" if self.vm else f"namespace {self.namespace}"

    def limit(self, quota: ResourceQuota) -> int | None:
        """What is written in the quota; None: nothing is."""
        limits = quota.spec.snapshot_limit
        if self.vm:
            return limits.vm_total_snapshot_size_quota.get(self.vm)
        found = limits.namespace_total_snapshot_size_quota
        return None if found is UNSET else found

    def usage(self, quota: ResourceQuota) -> int | None:
        """What its snapshots take; None: the quota does not say."""
        status = quota.status.snapshot_limit_status
        if status is None:
            return None
        return status.vm_total_snapshot_size_usage.get(self.vm) if self.vm else status.namespace_total_snapshot_size_usage

    def change(self, size: int | None) -> Json:
        """The merge patch; None removes the key."""
        limit = {"vmTotalSnapshotSizeQuota": {self.vm: size}} if self.vm else {"namespaceTotalSnapshotSizeQuota": size}
        return {"spec": {"snapshotLimit": limit}}


async def set_limit(client: QuotaClient, limited: Limited, size: int, *, manager: str) -> ResourceQuota | None:
    """The quota as it is then; None: there is none, and a limit of 0 needs none. Raises Conflict where others write all the
    time."""
    for attempt in range(1, TRIES + 1):
        found = await client.find(HARVESTER_QUOTAS, NAME, limited.namespace)
        if found is not None and not _changes(found, limited, size):
            return found
        if found is None and size == 0:
            return None
        try:
            if found is None:
                return await client.create(HARVESTER_QUOTAS, _new(limited, size))
            return await client.patch(
                HARVESTER_QUOTAS, NAME, limited.namespace, merge=limited.change(size), field_manager=manager
            )
        except (AlreadyExists, Conflict):  # somebody was quicker
            await asyncio.sleep(PAUSE.delay(attempt))
        except NotFound as error:
            if found is None or not error.names(HARVESTER_QUOTAS.group, HARVESTER_QUOTAS.plural, NAME):
                raise
            await asyncio.sleep(PAUSE.delay(attempt))  # it was deleted meanwhile
    raise _overtaken(limited)


async def remove_limit(client: QuotaClient, limited: Limited, *, manager: str) -> bool:
    """Whether it was there: that it is not is no error. The key goes: 0 can mean that there may be no snapshots."""
    for attempt in range(1, TRIES + 1):
        found = await client.find(HARVESTER_QUOTAS, NAME, limited.namespace)
        if found is None or limited.limit(found) is None:
            return False
        try:
            await client.patch(HARVESTER_QUOTAS, NAME, limited.namespace, merge=limited.change(None), field_manager=manager)
            return True
        except Conflict:
            await asyncio.sleep(PAUSE.delay(attempt))
        except NotFound as error:
            if not error.names(HARVESTER_QUOTAS.group, HARVESTER_QUOTAS.plural, NAME):
                raise
            return False
    raise _overtaken(limited)


def _overtaken(limited: Limited) -> Conflict:
    place = f"{HARVESTER_QUOTAS.name} {NAME} in namespace {limited.namespace}"
    return Conflict(f"{place} was changed by others each of {TRIES} times", code=409, reason="Conflict")


def below_usage(quota: ResourceQuota, limited: Limited) -> str | None:
    """A warning where the limit is less than what is used."""
    limit, used = limited.limit(quota), limited.usage(quota)
    if limit is None or used is None or used <= limit or (limit == 0 and not allows_zero(quota)):
        return None
    return (
        f"the limit of {shown(limit)} is below the {shown(used)} that snapshots of {limited} take now: none is deleted, and no "
        f"new one is admitted until they fit"
    )


def shown(size: int) -> str:
    return str(Quantity.of(size, Format.BINARY_SI))


def _changes(quota: ResourceQuota, limited: Limited, size: int) -> bool:
    present = limited.limit(quota)
    return present != size and not (size == 0 and present is None and not allows_zero(quota))


def _new(limited: Limited, size: int) -> ResourceQuota:
    limits = (
        SnapshotLimit(vm_total_snapshot_size_quota={limited.vm: size})
        if limited.vm
        else SnapshotLimit(namespace_total_snapshot_size_quota=size)
    )
    return ResourceQuota(metadata=Meta(name=NAME, namespace=limited.namespace), spec=ResourceQuotaSpec(snapshot_limit=limits))
