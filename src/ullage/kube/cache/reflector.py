"""Following a kind on the server: read everything once, then watch, and begin again where it broke off.

The loop behind a cache, with nothing kept but the version where the next watch begins. What can go wrong on the way is all
here: lost connections, silence, versions that the server forgot, kinds that it does not have (yet, or any more), servers that
are too busy, and those that do not know how to stream what is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from ullage.clock import Clock
from ullage.kube.backoff import Backoff
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.cache.interning import collector_paused
from ullage.kube.client.client import Reader, WatchEvent
from ullage.kube.errors import ApiError, BadRequest, Gone, Invalid, NotFound, TooLarge
from ullage.kube.kinds import Kind, Object

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

REPEATED = 3  # failures in a row; fewer are the ordinary kind: a server that restarts
RETRY = Backoff(first=0.1, cap=30.0)
LOOK_AGAIN = Backoff(first=0.5, cap=10.0)
BREATH = 256  # events after which others get a turn
STREAM_SECONDS = 3600.0  # for what is there to come: hundreds of thousands of objects on a slow line
LONGEST_ASKED = 300.0  # seconds that a server may ask us to stay away
BROKEN_STREAMS = 2  # in a row; then everything is read in pages, none of which takes long


@dataclass(frozen=True, slots=True)
class WatchTiming:
    """How long to wait for what, in seconds."""

    retry: Backoff = RETRY
    absent: Backoff = LOOK_AGAIN  # until the next look for a kind that is not served
    watch: float = 480.0  # then anew, so that connections spread over the servers there are
    silence: float = 180.0  # without a byte; bookmarks come about once a minute: a connection is taken for dead after this
    settled: float = 5.0  # a watch that held for so long, or brought something, was no failure
    turns: bool = False  # whether others get a turn while all that was read takes the place of what was there


class Sink(Protocol[T]):
    """Where what was read goes. All of it is synchronous: nobody sees half a change, where what was read is not to be taken in
    turns with others."""

    def compact(self, obj: T) -> None:
        """Makes an object small that nobody has seen yet."""

    def known(self, obj: T) -> T:
        """The object that is held already, if the one that was read is no newer; else that one, made small."""

    def replace(self, found: Mapping[Key, T], version: str) -> Iterator[None]:
        """Everything there is, at a version. Wherever the iterator stops others may have a turn; it has to be used up."""

    def change(self, key: Key, new: T | None) -> None:
        """One object came, changed or went (None)."""

    def reach(self, version: str) -> None:
        """Every change up to this version has been handed over."""

    def doubt(self) -> None:
        """The server is not followed: no watch is open, or it says that it knows no such kind and has not proven it."""

    def trust(self) -> None:
        """What was handed over is of the server's own history, and goes on."""

    def missing(self, version: str) -> None:
        """There is no such kind, and at a version there was none."""

    def trouble(self, error: Exception) -> None:
        """Reading failed and will be tried again."""


@dataclass(frozen=True, slots=True)
class Selection(Generic[T]):
    """What is followed: a kind in all namespaces or one, all objects or those that selectors choose."""

    kind: Kind[T]
    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Reflector(Generic[T]):
    def __init__(
        self,
        client: Reader,
        selection: Selection[T],
        sink: Sink[T],
        *,
        clock: Clock,
        jitter: Callable[[], float],
        timing: WatchTiming,
    ) -> None:
        self.heard = clock.monotonic()  # when the server last said something
        self._client = client
        self._what = selection
        self._sink = sink
        self._clock = clock
        self._jitter = jitter
        self._timing = timing
        self._version = ""  # where the next watch begins; empty: everything is to be read anew
        self._streams = True  # the server can send what is there as events (WatchList); until it says otherwise
        self._broken = 0  # streams that ended before they were complete, in a row
        self._extended = 0.0  # when the time for silence last began anew
        self._failures = 0  # in a row
        self._absences = 0
        self._taken = 0  # changes since the start
        self._listened = 0  # events of any sort since the start
        self._begun = 0  # readings of everything
        self._ended = 0  # the last of them that came to its end
        self._renewing = False  # another is wanted, that has not begun
        self._limit: asyncio.Timeout | None = None  # of a watch that has nothing left to read

    @property
    def readings(self) -> int:
        """The number of the last reading of everything that came to its end."""
        return self._ended

    def renew(self) -> int:
        """Has everything read anew. The number that `readings` has reached once a reading is done that began after this."""
        self._renewing = True
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())
        return self._begun + 1

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        while True:
            try:
                settled = await self._follow()
                delay = 0.0 if settled else self._failed(ConnectionError("the watch ended as soon as it began"))
            except (Gone, TooLarge) as error:  # of what was too large a part may have come: nothing goes on from there
                self._version = ""
                delay = self._failed(error)
            except NotFound as error:
                delay = await self._missing(error)
            except Exception as error:  # whatever it is: a cache that stopped would be silently wrong for ever
                delay = self._failed(error)
            await asyncio.sleep(delay)

    async def _follow(self) -> bool:
        """Reads everything if need be, and watches until the watch ends. Whether that was worth it."""
        if not self._version or self._renewing:
            self._version = ""
            self._begin_reading()
            if self._streams and self._broken < BROKEN_STREAMS:
                try:
                    return await self._watch(initial=True)
                except (BadRequest, Invalid):  # older servers refuse the option
                    self._streams = False
            await self._list()
        else:
            await self._check_history()
        return await self._watch()

    def _begin_reading(self) -> None:
        self._renewing = False
        self._begun += 1

    async def _check_history(self) -> None:
        """A server that was restored from a backup has forgotten what was read from it, and may give versions away again. It
        would be silent about that: a watch from a version of the future has nothing to say."""
        latest = await self._client.latest(self._what.kind, self._what.namespace, fields=self._what.fields)
        if int(latest) < int(self._version):
            raise Gone(f"the server is at version {latest}, and had reached {self._version}: it was restored from a backup")
        self._sink.trust()

    async def _list(self) -> None:
        what = self._what
        with collector_paused():
            listing = await self._client.list(
                what.kind, what.namespace, labels=what.labels, fields=what.fields, each=self._sink.compact
            )
            self.heard = self._clock.monotonic()
            await self._replace({key_of(obj): obj for obj in listing.items}, listing.resource_version)

    async def _watch(self, *, initial: bool = False) -> bool:
        what, began, taken = self._what, self._clock.monotonic(), self._taken
        limit = asyncio.timeout(self._timing.silence)
        lasts = self._timing.watch * (1.0 - self._jitter() / 2)
        watch = self._client.watch(
            what.kind,
            what.namespace,
            resource_version=self._version,
            labels=what.labels,
            fields=what.fields,
            timeout=STREAM_SECONDS if initial else lasts,
            initial_events=initial,
            heard=lambda: self._hear(limit),
        )
        stream = cast("AsyncGenerator[WatchEvent[T], None]", watch)  # an iterator that can be closed
        try:
            async with contextlib.aclosing(stream), limit:
                self._extended = began
                if initial:
                    await self._take_initial(stream, limit)
                self._limit = limit
                if not self._renewing:
                    await self._take_all(stream, limit, until=self._clock.monotonic() + lasts if initial else math.inf)
        except TimeoutError:
            if not self._renewing:
                logger.info("watch was silent for too long", extra={"kind": what.kind.name})
        finally:
            self._limit = None
            self._sink.doubt()
        if self._renewing:
            return True
        if self._taken == taken and self._clock.monotonic() - began < self._timing.settled:
            return False
        self._failures = 0
        return True

    async def _take_initial(self, stream: AsyncIterator[WatchEvent[T]], limit: asyncio.Timeout) -> None:
        """What is there comes as events too; a bookmark of its own kind says that it was all."""
        found: dict[Key, T] = {}
        broken = self._broken + 1
        with collector_paused():
            async for event in stream:
                await self._listen(limit)
                self._broken = broken  # it has begun; once it is complete it was none
                obj = event.object
                if event.ends_initial_events:
                    await self._replace(found, event.resource_version)
                    return
                if event.type == "BOOKMARK":
                    continue
                if event.type == "DELETED":
                    found.pop(key_of(obj), None)
                else:
                    found[key_of(obj)] = self._sink.known(obj)
        raise ConnectionError("the watch ended before everything had come")

    async def _take_all(self, stream: AsyncIterator[WatchEvent[T]], limit: asyncio.Timeout, *, until: float) -> None:
        """`until` is for a stream that the server was asked for longer than a watch should be."""
        async for event in stream:
            await self._listen(limit)
            self._take(event)
            if self._renewing or self._clock.monotonic() >= until:
                return

    async def _listen(self, limit: asyncio.Timeout) -> None:
        """Notes that the server speaks, and lets others have a turn however much it says."""
        self._hear(limit)
        self._listened += 1
        if self._listened % BREATH == 0:
            await asyncio.sleep(0)

    def _hear(self, limit: asyncio.Timeout) -> None:
        """A byte is enough. The limit is moved now and then: to move it costs more than to hear."""
        self.heard = self._clock.monotonic()
        if self.heard - self._extended > self._timing.silence / 100 and not (self._renewing and self._limit):
            limit.reschedule(asyncio.get_running_loop().time() + self._timing.silence)
            self._extended = self.heard

    def _take(self, event: WatchEvent[T]) -> None:
        obj = event.object
        if event.type != "BOOKMARK":
            self._sink.change(key_of(obj), None if event.type == "DELETED" else self._sink.known(obj))
            self._taken += 1
            self._failures = 0
        self._reach(event.resource_version)

    async def _replace(self, found: Mapping[Key, T], version: str) -> None:
        begun = self._begun
        if self._timing.turns:
            self._sink.doubt()  # until all of it is there
        for _ in self._sink.replace(found, version):
            if self._timing.turns:
                await asyncio.sleep(0)
        self._ended = begun
        self._absences = self._broken = 0
        self._version = version

    def _reach(self, version: str) -> None:
        self._sink.reach(version)
        self._version = version

    async def _missing(self, error: ApiError) -> float:
        """The kind is gone, if that can be proven. If not, nothing has been learnt: its version may not be served any more, or
        not yet by the server that answered, or it was no API server that did."""
        self._sink.doubt()
        self._begun += 1
        renewing, self._renewing = self._renewing, False
        try:
            version = await self._client.absent(self._what.kind)
        except ApiError as trouble:
            version, error = "", trouble
        if not version:
            self._renewing |= renewing
            return self._failed(error)
        self.heard = self._clock.monotonic()
        self._version = ""
        self._failures = 0
        self._absences += 1
        self._ended = self._begun
        self._sink.missing(version)
        return self._shortened(self._timing.absent.delay(self._absences))

    def _failed(self, error: Exception) -> float:
        """Counts a failure; how long to wait before the next try."""
        self._failures += 1
        asked = min(getattr(error, "retry_after", None) or 0.0, LONGEST_ASKED)
        delay = max(self._shortened(self._timing.retry.delay(self._failures)), asked)
        self._sink.trouble(error)
        level = logging.WARNING if self._failures > REPEATED else logging.INFO
        about = {"kind": self._what.kind.name, "error": str(error), "delay": round(delay, 3)}
        unexpected = not isinstance(error, ApiError | ConnectionError)
        logger.log(logging.ERROR if unexpected else level, "reading failed", extra=about, exc_info=unexpected and error)
        return delay

    def _shortened(self, delay: float) -> float:
        """By up to a half: caches that failed together should not come back together."""
        return delay * (1.0 - self._jitter() / 2)
