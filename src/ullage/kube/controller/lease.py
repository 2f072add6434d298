"""Leader election on a Lease: one of several processes works, the others wait.

What makes it safe stands in `candidate.py`. Here it meets the API and the work: the work runs as a task that is cancelled when
the tenure is over, and `Elector.guard`, which the client calls before it sends a write, refuses once the deadline is past.
The guard asks a clock that goes on while the process is stopped or the machine sleeps, so it holds even if nothing else in the
process had a chance to run yet. A lease is no fence: a write that was sent in time may still arrive late, and a process that
is stopped after a guard let a write pass and before its bytes left sends that one when it wakes. Nothing waits in between:
it is one write at most, however many are under way.

The elector itself needs the client without that guard (`work = client.guarded(elector.guard)`): it writes while nobody leads.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ullage.clock import BootClock, Clock
from ullage.errors import Retryable, UllageError
from ullage.kube.builtin.coordination import LEASES, Lease, LeaseSpec
from ullage.kube.controller.candidate import AcquireLease, Candidate, Record, Timing, Wait
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.kinds import Meta
from ullage.shutdown import done_before
from ullage.times import micro_timestamp

if TYPE_CHECKING:
    from ullage.kube.client.client import Client

logger = logging.getLogger(__name__)

Observe = Callable[[str], None]


class NotLeading(Retryable):
    """Only the leader may write, and this process is not the leader, or no longer."""


def own_identity() -> str:
    """A name for this process that no other one has, nor a later one on the same host."""
    return f"{socket.gethostname()[:200]}_{uuid.uuid4()}"


class Elector:
    """Runs for the leadership that one Lease stands for.

    `observe` is told `acquired`, `renewed`, `failed` (a request), `lost` and `released`, for counting.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        namespace: str,
        identity: str,
        timing: Timing | None = None,
        clock: Clock | None = None,
        observe: Observe | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._clock = clock or BootClock()
        self._observe = observe or (lambda event: None)
        self._timing = timing or Timing()
        self._candidate = Candidate(identity, self._timing)
        self._working: asyncio.Future[None] | None = None
        self._log = {"lease": f"{namespace}/{name}", "identity": identity}

    @property
    def leading(self) -> bool:
        return self._candidate.leads(self._clock.monotonic())

    @property
    def holder(self) -> str:
        """Who led when the Lease was last looked at; empty if nobody did."""
        return self._candidate.record.holder if self._candidate.record else ""

    def guard(self) -> None:
        """For `Client(guard=…)`: refuses every write that would begin after the deadline."""
        if not self.leading:
            raise NotLeading(f"{self._candidate.identity} does not lead {self._namespace}/{self._name}")

    async def run(self, work: Callable[[], Awaitable[None]], *, stop: asyncio.Event | None = None) -> None:
        """Waits to lead, runs `work`, runs for it again after each loss; until the work ends by itself, or this is cancelled.
        From the `stop` on, which is the work's own too, it does not run for the lease any more.

        The work of a lost tenure has ended before the next begins. On the way out it ends first and is renewed for meanwhile;
        only then the Lease is given back, so that the next leader need not wait.
        """
        try:
            while await done_before(stop or asyncio.Event(), self._acquire()):
                if await self._lead(work):
                    return
        finally:
            await self._release()

    # --- becoming the leader -----------------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        told: str | None = None
        while True:
            pause = await self._try_to_lead()
            if self.leading:
                break
            if self.holder and self.holder != told:
                told = self.holder
                logger.info("waiting for the lease", extra={**self._log, "holder": told})
            await asyncio.sleep(pause)
        self._observe("acquired")
        logger.info("leading", extra=self._log)

    async def _try_to_lead(self) -> float:
        """Looks, and claims what is free. Seconds until it makes sense to look again."""
        try:
            async with asyncio.timeout(self._timing.renew_within):
                await self._look()
                wish = self._candidate.wish(self._clock.monotonic())
                if isinstance(wish, Wait):
                    return wish.seconds
                await self._claim(wish)
                return 0.0
        except (Conflict, AlreadyExists):
            pass  # somebody was faster: the next look shows who
        except (UllageError, TimeoutError) as error:
            self._observe("failed")
            logger.warning("could not run for the lease", extra={**self._log, "error": str(error) or "no answer in time"})
        return self._timing.retry

    async def _look(self) -> None:
        found = await self._client.find(LEASES, self._name, self._namespace)
        self._candidate = self._candidate.see(None if found is None else _record(found), now=self._clock.monotonic())

    async def _claim(self, claim: AcquireLease) -> None:
        spec: dict[str, Any] = {
            "holderIdentity": self._candidate.identity,
            "leaseDurationSeconds": math.ceil(self._timing.duration),
            "renewTime": micro_timestamp(self._clock.now()),
            "leaseTransitions": claim.transitions,
        }
        if claim.anew:
            spec["acquireTime"] = spec["renewTime"]
        began = self._clock.monotonic()  # before anything is sent: the answer may take its time, and we may be stopped
        written = await self._write(claim.onto, spec)
        self._candidate = self._candidate.won(_record(written), began=began, now=self._clock.monotonic())

    async def _write(self, onto: Record | None, spec: dict[str, Any]) -> Lease:
        if onto is None:
            return await self._client.create(
                LEASES, Lease(metadata=Meta(name=self._name, namespace=self._namespace), spec=_typed(spec))
            )
        return await self._client.patch(
            LEASES, self._name, self._namespace, merge={"spec": spec}, uid=onto.uid, resource_version=onto.version
        )

    # --- being the leader --------------------------------------------------------------------------------------------

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        """One tenure. True: the work ended by itself; False: the tenure was lost, and the work has ended after that."""
        working = self._working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
            by_itself = working.done()
        finally:
            working.cancel()
            await asyncio.wait((working,))
            renewing.cancel()
            await asyncio.wait((renewing,))
        self._raise_failure(renewing)
        lost = self._raise_failure(working)
        if by_itself and not lost:
            return True
        self._candidate = self._candidate.step_down()
        self._observe("lost")
        logger.warning("no longer leading", extra={**self._log, "holder": self.holder})
        return False

    def _raise_failure(self, task: asyncio.Future[None]) -> bool:
        """Raises what a task failed with; that its writes were refused for want of leadership is no failure but a loss."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, BaseExceptionGroup):
            _, error = error.split(NotLeading)
            if error is None:
                return True
        if isinstance(error, NotLeading):
            return True
        if error is not None:
            raise error
        return False

    async def _renew(self) -> None:
        """Renews until the tenure is over: by the deadline, or because somebody else is in the record."""
        while True:
            await asyncio.sleep(self._timing.retry)
            left = (self._candidate.deadline or 0.0) - self._clock.monotonic()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._renew_once()
            except (UllageError, TimeoutError) as error:
                self._observe("failed")
                logger.warning("could not renew the lease", extra={**self._log, "error": str(error) or "no answer in time"})
            if not self.leading:
                return

    async def _renew_once(self) -> None:
        for _ in range(2):
            wish = self._candidate.wish(self._clock.monotonic())
            if not isinstance(wish, AcquireLease) or not self.leading:
                return
            try:
                await self._claim(wish)
            except (Conflict, NotFound):
                await self._look()  # it was edited, it is gone, or an answer of ours was lost; now we know
            else:
                self._observe("renewed")
                return

    async def _release(self) -> None:
        """Gives the Lease back, if we have it. Nothing is written by us from here on, whatever comes of it."""
        record, self._candidate = self._candidate.record, self._candidate.step_down()
        if record is None or record.holder != self._candidate.identity:
            return
        if self._working is not None and not self._working.done():
            return  # cancelled twice, and the work has not ended: what it has sent may still arrive, so let the lease run out
        try:
            async with asyncio.timeout(self._timing.release_within):
                released = await self._give_back(record)
        except (UllageError, TimeoutError) as error:
            logger.warning("could not release the lease", extra={**self._log, "error": str(error) or "no answer in time"})
            return
        if released:
            self._observe("released")
            logger.info("released the lease", extra=self._log)

    async def _give_back(self, record: Record) -> bool:
        """False where it is not ours any more. A renewal that was cancelled may have arrived all the same, and what we know of
        the Lease is older than that: then it is looked at once more."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_timestamp(self._clock.now())}
        seen: Record | None = record
        while seen is not None and (seen.uid, seen.holder) == (record.uid, record.holder):
            try:
                await self._write(seen, spec)
            except Conflict:
                found = await self._client.find(LEASES, self._name, self._namespace)
                seen = None if found is None else _record(found)
            except NotFound:
                return False
            else:
                return True
        return False


def _record(lease: Lease) -> Record:
    spec = lease.spec
    return Record(
        version=lease.metadata.resource_version,
        uid=lease.metadata.uid,
        holder=spec.holder_identity or "",
        duration=float(spec.lease_duration_seconds or 0),
        transitions=spec.lease_transitions or 0,
    )


def _typed(spec: dict[str, Any]) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=spec["holderIdentity"],
        lease_duration_seconds=spec["leaseDurationSeconds"],
        acquire_time=spec["acquireTime"],
        renew_time=spec["renewTime"],
        lease_transitions=spec["leaseTransitions"],
    )
