"""How much one cluster may ask: reviews a second, reviews at once, bytes, and time of the processor.

Whoever administers a user cluster knows the path that it asks under, and can post what he likes to it. His reviews are read
into bounds of their own, and beyond his rate they are answered with 429 before anything of them is read: others find the room
and the processor that they would find without him. What a review costs is his to choose, too, so one that is large, or that the
processor is long busy with, counts for several: his rate is a share of the processor. Many clusters together have a bound of
bytes as well, which is looked at with every part that is read. Long before it is reached each may only have its share, so that
whoever fills it with many clusters keeps no small review of others out.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.processor_time import paid_by
from ullage.kube.read_limits import KIB, MIB, text_weight
from ullage.kube.token_bucket import TokenBucket
from ullage.serving.bodies import BodyBounds, BodyReader, BodyRefused, Receive

logger = logging.getLogger(__name__)

TELL_EVERY: Final = 60.0  # seconds between two lines in the log about one cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """Of one cluster besides our own, and of all of them. Sizes are in bytes."""

    reviews: float = 200.0  # a second
    at_once: int = 256  # reviews that are being read or answered
    burst: float = 10.0  # seconds' worth of reviews that may come at once
    each: int = 64 * KIB  # of a review that counts for one, as it is once it is decoded; a larger one counts for several
    seconds: float = 0.001  # of the processor, for a review that counts for one; one that takes longer counts for several
    largest: int = 8 * MIB  # a review: two objects of 3 MiB, which may grow in encoding
    held: int = 16 * MIB  # reviews of one cluster
    decoded: int = 64 * MIB  # that a review may take once it is decoded
    shared: int = 32 * MIB  # reviews of all clusters besides our own; beyond that each may have as much of it as any other
    held_of_all: int = 256 * MIB  # and what they never exceed


class CallerRefused(Exception):
    """Too much for now. `seconds` is when to come again."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = max(1, math.ceil(seconds))


class _Load:
    """What one cluster asks for now."""

    def __init__(self, limits: CallerLimits, clock: Clock) -> None:
        rate = limits.reviews * limits.each
        self.bucket = TokenBucket(rate=rate, burst=rate * limits.burst, clock=clock)
        self.bodies = BodyReader(
            BodyBounds(what=("review", "reviews"), largest=limits.largest, most_at_once=limits.held, seconds=10.0)
        )
        self.running = 0
        self.tell_at = -math.inf

    @property
    def idle(self) -> bool:
        return self.running == 0 and self.bucket.full


class _Bill:
    """What one review costs, in the bytes that a cluster's bucket is filled with. The larger of size and time counts."""

    def __init__(self, load: _Load, limits: CallerLimits, *, weight: int) -> None:
        self._load = load
        self._per_second = limits.each / limits.seconds
        self._spent = 0.0  # by time
        self._paid = float(max(limits.each, weight))
        load.bucket.spend(self._paid)

    def spend(self, seconds: float) -> None:
        self._spent += seconds * self._per_second
        if (more := self._spent - self._paid) > 0:
            self._paid += more
            self._load.bucket.spend(more)


class CallerLoads:
    """Of all clusters besides our own. Only those are remembered that have asked lately."""

    def __init__(self, limits: CallerLimits, *, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._loads: dict[str, _Load] = {}
        self._held = 0  # bytes, of all

    @contextlib.asynccontextmanager
    async def body(self, cluster: str, receive: Receive, *, declared: int) -> AsyncIterator[bytes]:
        """The body of a review, which counts until the block ends. What is `metered` in the block is paid for by the cluster.
        Raises CallerRefused and BodyRefused."""
        load, size = self._enter(cluster), 0
        load.running += 1

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal size
            message = await receive()
            more = len(message.get("body", b""))
            self._check_room(load, more)
            size += more
            self._held += more
            return message

        try:
            async with load.bodies.body(bounded, declared=declared) as body:
                bill = _Bill(load, self._limits, weight=(weight := text_weight(body)))
                self._check(weight)
                with paid_by(bill.spend):
                    yield body
        except BodyRefused as error:
            if error.code != 503:
                raise
            raise CallerRefused(f"cluster {cluster}: {error}", seconds=1.0) from None
        finally:
            load.running -= 1
            self._held -= size

    def _enter(self, cluster: str) -> _Load:
        limits = self._limits
        load = self._loads.get(cluster)
        if load is None:
            self._loads = {name: one for name, one in self._loads.items() if not one.idle}
            load = self._loads[cluster] = _Load(limits, self._clock)
        if load.running >= limits.at_once:
            raise self._refused(cluster, load, f"{limits.at_once} reviews are under way, and no more are taken", 1.0)
        if (wait := load.bucket.wait()) > 0:
            problem = f"more than {limits.reviews:g} reviews a second were asked for; large and slow ones count for several"
            raise self._refused(cluster, load, problem, wait)
        return load

    def _check_room(self, load: _Load, more: int) -> None:
        """Before another part of a body is held."""
        held = self._held + more
        if not more or held <= self._limits.shared:
            return
        holding = sum(one is load or one.bodies.held > 0 for one in self._loads.values())
        if held > self._limits.held_of_all or load.bodies.held + more > self._limits.shared // holding:
            raise BodyRefused(503, "too many reviews of all clusters at once; try again")

    def _refused(self, cluster: str, load: _Load, problem: str, seconds: float) -> CallerRefused:
        now = self._clock.monotonic()
        if now >= load.tell_at:
            load.tell_at = now + TELL_EVERY
            logger.warning("cluster asks for too much", extra={"cluster": cluster, "problem": problem})
        return CallerRefused(f"cluster {cluster}: {problem}; try again", seconds=seconds)

    def _check(self, weight: int) -> None:
        """Before anything is decoded."""
        if weight > self._limits.decoded:
            most = self._limits.decoded // MIB
            raise BodyRefused(413, f"a review takes at most {most} MiB once it is decoded, not {weight // MIB} MiB")
