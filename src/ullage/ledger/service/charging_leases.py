"""Which kinds the live processes charge for: each says so in a Lease of its own, and renews it.

A kind that no process charges any more (a restart with other options, a release that has another kind in its place) keeps its
sums in every ledger. They may go once it is certain that no process counts on: its Leases are not renewed any more, on the
clock of the process that looks, whatever the times in them say. What is not known is taken for charged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, Self

from ullage.clock import Clock, SystemClock
from ullage.errors import UllageError
from ullage.kube.builtin.coordination import LEASES, Lease, LeaseSpec
from ullage.kube.client.client import Listing
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.times import micro_timestamp

logger = logging.getLogger(__name__)

CHARGES: Final = "ullage.io/charges"  # the label of these Leases, and the annotation that names the kinds
PREFIX: Final = "ullage-charges-"
RENEW: Final = 10.0  # seconds between two renewals
LIVE: Final = 35.0  # seconds for which a Lease that is not renewed is that of a live process: three renewals, and a slow answer
FORGOTTEN: Final = 600.0  # seconds after which a Lease that is not renewed is deleted
LOOK: Final = 5.0  # seconds between two looks
BROKEN: Final = 30.0  # seconds without a look after which nothing is known of the time between
LEAVING: Final = 1.0  # seconds for the deletion of the own Lease on the way out


class LeaseWriter(Protocol):
    """What the own Lease needs of a `kube.Client`."""

    async def create(self, kind: Kind[Lease], obj: Lease) -> Lease: ...

    async def patch(
        self, kind: Kind[Lease], name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None
    ) -> Lease: ...

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None: ...


class LeaseReader(Protocol):
    """What a look at all of them needs of a `kube.Client`."""

    async def list(self, kind: Kind[Lease], namespace: str = "", *, labels: str = "") -> Listing[Lease]: ...

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None: ...


class ChargingLease:
    """`async with` keeps the Lease of this process while it runs. That it cannot be written stops nothing: then another process
    may take the kinds for not charged, and drop sums that this one counts again."""

    def __init__(
        self,
        api: LeaseWriter,
        kinds: Callable[[], Iterable[str]],
        *,
        instance: str,
        namespace: str,
        call: float,
        clock: Clock | None = None,
    ) -> None:
        """`instance` names the process, as no other and no later one."""
        self._api = api
        self._kinds = kinds
        self._instance = instance
        self._namespace = namespace
        self._call = call
        self._clock = clock or SystemClock()
        self._name = lease_name(instance)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep(), name="charging lease")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(LEAVING):
                await self._api.delete(LEASES, self._name, self._namespace)
        except (UllageError, TimeoutError) as error:
            logger.info("own lease is left behind", extra={"lease": self._name, "error": str(error)})

    async def _keep(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._call):
                    await self.renew()
            except (UllageError, TimeoutError) as error:
                logger.warning(
                    "what is charged for could not be said",
                    extra={"lease": self._name, "error": str(error) or "no answer in time"},
                )
            await asyncio.sleep(RENEW)

    async def renew(self) -> None:
        charged, now = ",".join(sorted(self._kinds())), micro_timestamp(self._clock.now())
        merge = {
            "metadata": {"labels": {CHARGES: "true"}, "annotations": {CHARGES: charged}},
            "spec": {"holderIdentity": self._instance, "leaseDurationSeconds": int(LIVE), "renewTime": now},
        }
        try:
            await self._api.patch(LEASES, self._name, self._namespace, merge=merge)
        except NotFound:
            meta = Meta(name=self._name, namespace=self._namespace, labels={CHARGES: "true"}, annotations={CHARGES: charged})
            spec = LeaseSpec(holder_identity=self._instance, lease_duration_seconds=int(LIVE), renew_time=now)
            await self._api.create(LEASES, Lease(metadata=meta, spec=spec))


def lease_name(instance: str) -> str:
    """Of a process: what is random of its identity."""
    return f"{PREFIX}{instance.rpartition('_')[2].lower()}"


class LiveKinds:
    """The kinds that live processes charge for, as one process sees it. It asks only while it is asked."""

    def __init__(self, api: LeaseReader, *, namespace: str, call: float, clock: Clock | None = None) -> None:
        self._api = api
        self._namespace = namespace
        self._call = call
        self._clock = clock or SystemClock()
        self._seen: dict[str, tuple[str, float]] = {}  # by uid: the version, and when it was first seen
        self._charged: dict[str, float] = {}  # by kind: when a live process was last seen to charge it
        self._looked: float | None = None
        self._since = 0.0  # since when looks have followed each other without a break

    async def look(self) -> bool:
        """Whether it is known what live processes charge for; asks every few seconds at most."""
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < LOOK:
            return True
        try:
            async with asyncio.timeout(self._call):
                found = await self._api.list(LEASES, self._namespace, labels=f"{CHARGES}=true")
        except (UllageError, TimeoutError) as error:
            logger.info("what live processes charge for is not known", extra={"error": str(error)})
            return False
        if self._looked is None or now - self._looked > BROKEN:
            self._since = now
        self._looked = now
        before, self._seen = self._seen, {}
        for lease in found.items:
            meta = lease.metadata
            version, first = before.get(meta.uid, ("", now))
            first = first if version == meta.resource_version else now
            self._seen[meta.uid] = meta.resource_version, first
            if now - first <= LIVE:
                self._charged.update(dict.fromkeys(kinds_in(lease), now))
            elif now - first > FORGOTTEN:
                await self._forget(meta)
        return True

    def charged(self, kind: str) -> bool:
        """Whether a live process charges a kind, at the last look."""
        return self._looked is not None and self._charged.get(kind) == self._looked

    def idle(self, kind: str) -> float:
        """For how many seconds no live process has charged a kind, for certain."""
        if self._looked is None:
            return 0.0
        return self._looked - max(self._since, self._charged.get(kind, self._since))

    async def _forget(self, meta: Meta) -> None:
        try:
            async with asyncio.timeout(self._call):
                await self._api.delete(LEASES, meta.name, self._namespace, uid=meta.uid)
        except NotFound:
            return
        except (UllageError, TimeoutError) as error:
            logger.info("a lease of a process that is gone stays", extra={"lease": meta.name, "error": str(error)})


def kinds_in(lease: Lease) -> list[str]:
    return [kind for kind in lease.metadata.annotations.get(CHARGES, "").split(",") if kind]
