"""Keys that want to be worked on: each once, never two workers on one key, again later if it failed.

A key is in one state at a time: at rest, waiting for a moment, ready, running, or running with another run asked for. So there
is one timer to a key at most, however often it was added. An add asks for a run that starts after it, *no later than* the given
delay: a run that starts sooner answers it too, which suits reconcilers, since each run says itself when it wants the next.

`pop`, `add`, `done` and `failed` are synchronous and read the time from the clock alone; `take` is the waiting around them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ullage.clock import Clock, SystemClock
from ullage.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

LONGEST_TIMER = 3600.0  # the loop's clock and ours may drift: look again at least once an hour


class Closed(Exception):
    """The queue takes and gives nothing any more. No error: how a worker learns that it is to go."""


class Queue(Generic[K]):
    def __init__(
        self,
        *,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        waited: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`waited` is told how long each key was ready before a worker took it."""
        self._clock = clock or SystemClock()
        self._backoff = backoff or Backoff()
        self._waited = waited
        self._line: deque[K] = deque()  # the keys that are ready, in the order of arrival
        self._ready: dict[K, float] = {}  # the same, with the moment since when
        self._due: dict[K, float] = {}  # the keys that wait, with the moment until when
        self._heap: list[tuple[float, int, K]] = []  # the same by time; entries that `_due` contradicts are stale
        self._running: dict[K, float | None] = {}  # with the moment of the next run that was asked for meanwhile
        self._failures: dict[K, int] = {}
        self._pushed = 0  # breaks ties in the heap: keys need no order
        self._takers: deque[asyncio.Future[None]] = deque()
        self._drainers: list[asyncio.Future[None]] = []
        self._timer: asyncio.Handle | None = None
        self._rings_at = 0.0  # on the loop's clock; uvloop's handles do not tell when they are due at once
        self._closed = False

    # --- for whoever wants work done ---

    def add(self, key: K, *, after: float = 0.0) -> None:
        """Has the key run within `after` seconds; if it is running now, once more when that run is over."""
        now = self._clock.monotonic()
        self._promote(now)  # whoever was due before stands before
        if self._closed or key in self._ready:
            return
        moment = now + max(after, 0.0)
        if key in self._running:
            wanted = self._running[key]
            self._running[key] = moment if wanted is None else min(wanted, moment)
        elif moment <= now:
            self._due.pop(key, None)
            self._make_ready(key, now)
        elif moment < self._due.get(key, float("inf")):
            self._wait(key, moment)

    # --- for workers ---

    async def take(self) -> K:
        """The next key, as soon as there is one. Raises `Closed`."""
        while True:
            if self._closed:
                raise Closed
            key = self.pop()
            if key is not None:
                return key
            await self._woken()

    def pop(self) -> K | None:
        """The key that is ready for longest, or None. Until `done` or `failed` it is given to nobody else."""
        now = self._clock.monotonic()
        self._promote(now)
        if not self._ready:
            return None
        key = self._line.popleft()
        self._waited(max(0.0, now - self._ready.pop(key)))
        self._running[key] = None
        return key

    def done(self, key: K, *, after: float | None = None) -> None:
        """The run went well: earlier failures are forgotten. With `after`, the key runs again by then."""
        self._failures.pop(key, None)
        self._finish(key, after)

    def failed(self, key: K, *, at_least: float = 0.0) -> float:
        """The run failed: the key runs again after its backoff, or after `at_least` if that is longer. Returns the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(self._backoff.delay(failures), at_least)
        self._finish(key, delay)
        return delay

    def _finish(self, key: K, after: float | None) -> None:
        wanted = self._running.pop(key)
        now = self._clock.monotonic()
        if after is not None:
            moment = now + max(after, 0.0)
            wanted = moment if wanted is None else min(wanted, moment)
        if wanted is not None and not self._closed:
            if wanted <= now:
                self._make_ready(key, wanted)
            else:
                self._wait(key, wanted)
        self._tell_drainers()

    # --- for whoever looks on, and for the end ---

    def __len__(self) -> int:
        """How many keys are ready and not yet taken: the backlog."""
        self._promote(self._clock.monotonic())
        return len(self._ready)

    def failures(self, key: K) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    @property
    def waiting(self) -> int:
        return len(self._due)

    @property
    def running(self) -> int:
        return len(self._running)

    def due_in(self) -> float | None:
        """Seconds until the first waiting key is ready; None if none waits."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return max(0.0, self._heap[0][0] - self._clock.monotonic()) if self._heap else None

    async def drained(self) -> None:
        """Returns when nothing is ready and nothing runs. Keys that wait for a later moment do not count."""
        while self._running or (len(self) and not self._closed):
            drainer = asyncio.get_running_loop().create_future()
            self._drainers.append(drainer)
            await drainer

    def close(self) -> None:
        """Gives no more keys out. What runs may finish; what was ready is dropped: the next start lists everything anew."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._takers:
            self._wake_taker()
        self._tell_drainers()

    # --- inside ---

    def _make_ready(self, key: K, since: float) -> None:
        self._ready[key] = since
        self._line.append(key)
        self._wake_taker()

    def _wait(self, key: K, moment: float) -> None:
        self._due[key] = moment
        self._pushed += 1
        heapq.heappush(self._heap, (moment, self._pushed, key))
        if len(self._heap) > 2 * len(self._due) + 64:  # keys that are moved to and fro leave stale entries behind
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        self._set_timer()

    def _promote(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            moment, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == moment:
                del self._due[key]
                self._make_ready(key, moment)

    async def _woken(self) -> None:
        taker = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        self._set_timer()
        try:
            await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                self._wake_taker()  # the call was for a worker that goes: pass it on
            raise

    def _wake_taker(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _set_timer(self) -> None:
        """One timer for the whole queue, and only while a worker waits: an idle queue never wakes up."""
        due_in = self.due_in() if self._takers and not self._closed else None
        if due_in is None:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + min(due_in, LONGEST_TIMER)
        if self._timer is not None:
            if not self._timer.cancelled() and self._rings_at <= when:
                return
            self._timer.cancel()
        self._timer, self._rings_at = loop.call_at(when, self._ring), when

    def _ring(self) -> None:
        self._timer = None
        self._promote(self._clock.monotonic())
        self._set_timer()

    def _tell_drainers(self) -> None:
        if not self._running:
            drainers, self._drainers = self._drainers, []
            for drainer in drainers:
                if not drainer.done():
                    drainer.set_result(None)
