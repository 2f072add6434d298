"""All objects of one kind, kept as the server has them.

What a cache promises:
- after `synced`, its contents are what the server had at `position()`, unless it is `doubtful`;
- handlers see every object come, change and go, as (old, new), in order and one at a time; `old` is always what they were told
  last. That holds through lost connections and lost history: whatever went meanwhile is told as gone, and an object that was
  deleted and made anew under its name is told as gone first;
- a kind that the server does not have (no definition of it, in any version) counts as empty and synced, and begins as soon as
  it is served. Any other 404 is a failure like others: what was read stays;
- a server that was restored from a backup is noticed when it is followed anew, and everything is read from it again;
- it never gives up, and never asks in a tight loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from ullage.clock import Clock, SystemClock
from ullage.kube.cache.indexer import Indexer, Key, Values, key_of
from ullage.kube.cache.interning import ROOM, ROOM_ELSEWHERE, Pool
from ullage.kube.cache.reflector import Reflector, Selection, WatchTiming
from ullage.kube.client.client import Reader
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import CacheGauges, Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
Handler = Callable[[T | None, T | None], None]

TURN = 8  # objects; each may cost handlers milliseconds
SHOWN_SECONDS = 1.0  # a write is usually shown within milliseconds


class Cache(Generic[T]):
    def __init__(
        self,
        client: Reader,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        metrics: Metrics | None = None,
        timing: WatchTiming | None = None,
        cluster: str = "",
    ) -> None:
        """Of all namespaces, or of one; of all objects, or of those that the selectors choose. `jitter` gives 0 to 1;
        `cluster` is where the client reads, where that is not our own."""
        self.kind = kind
        self._whole = not (namespace or labels or fields)
        self.synced = asyncio.Event()
        self._contents: _Contents[T] = _Contents(kind.name, self.synced, metrics or Metrics(), cluster=cluster)
        self._clock = clock or SystemClock()
        self._follower = Reflector(
            client,
            Selection(kind, namespace, labels, fields),
            self._contents,
            clock=self._clock,
            jitter=jitter,
            timing=timing or WatchTiming(),
        )
        contents = self._contents
        if metrics is not None:
            metrics.show_cache(CacheGauges(kind.name, cluster, contents.objects.__len__, self.age, self.synced.is_set))

    async def run(self) -> None:
        """Follows the server until it is cancelled."""
        await self._follower.run()

    def get(self, key: Key) -> T | None:
        return self._contents.objects.get(key)

    def items(self) -> list[T]:
        return list(self._contents.objects)

    def by(self, index: str, value: str) -> list[T]:
        return self._contents.objects.by(index, value)

    def __len__(self) -> int:
        return len(self._contents.objects)

    def __bool__(self) -> bool:
        """An empty cache is a cache."""
        return True

    def index(self, name: str, values: Values[T]) -> None:
        """Has objects found under the values that the function gives for each; it must depend on the object alone."""
        self._contents.objects.index(name, values)

    def handle(self, handler: Handler[T]) -> None:
        """Has every change told. A handler that comes late is told first of what is there. It must not block."""
        self._contents.handle(handler)

    @property
    def whole(self) -> bool:
        """Whether it follows all objects of its kind: of every namespace, and without selectors."""
        return self._whole

    @property
    def served(self) -> bool:
        """False while the server has no such kind."""
        return self._contents.served

    @property
    def doubtful(self) -> bool:
        """Whether the server is not followed now: what is held was true, and may be of a history that a backup has undone."""
        return self._contents.doubtful

    @property
    def session(self) -> int:
        """Another number whenever the server was lost or found: what was read before may be of another history."""
        return self._contents.session

    @property
    def readings(self) -> int:
        """The number of the last reading of everything there is: what is held was there after that began, or has come since."""
        return self._follower.readings

    def renew(self) -> int:
        """Has everything read anew. The number that `readings` has reached once a reading is done that began after this."""
        return self._follower.renew()

    @property
    def error(self) -> Exception | None:
        """Why the server cannot be read now; None while all is well."""
        return self._contents.error

    def position(self) -> int:
        """The resourceVersion that the contents have reached: every change up to it is in, and was told. 0: none yet."""
        return self._contents.position

    async def reached(self, position: int) -> None:
        """Waits until a version is in. One that another kind's write got is only passed with the next change or bookmark."""
        await self._contents.reached(position)

    async def shows(self, written: T, *, seconds: float = SHOWN_SECONDS) -> None:
        """Waits until the cache shows a write: the next look would repeat the write, and be refused.

        The wait ends after `seconds`: after a restored backup the cache may never show the write.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.reached(int(written.metadata.resource_version))

    def age(self) -> float | None:
        """Seconds since the server was last heard of; None if it does not serve the kind."""
        return self._clock.monotonic() - self._follower.heard if self.served else None


class _Contents(Generic[T]):
    """What a cache holds and whom it tells. Every method but `reached` runs from start to end with nothing in between."""

    def __init__(self, name: str, synced: asyncio.Event, metrics: Metrics, *, cluster: str) -> None:
        self.name = name
        self.objects: Indexer[T] = Indexer()
        self.served = True
        self.doubtful = False
        self.session = 0
        self.error: Exception | None = None
        self.position = 0
        self._synced = synced
        self._pool = Pool(room=ROOM_ELSEWHERE if cluster else ROOM)
        self._handlers: list[Handler[T]] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._count_event = metrics.cache_events.labels(name, cluster).inc
        self._count_sync = metrics.cache_syncs.labels(name, cluster).inc
        self._count_failure = metrics.cache_failures.labels(name, cluster).inc
        self._count_handler_error = metrics.handler_errors.labels(name, cluster).inc

    # --- from the reflector ---

    def compact(self, obj: T) -> None:
        self._pool.compact(obj)

    def known(self, obj: T) -> T:
        held = self.objects.get(key_of(obj))
        if held is not None and _same(held, obj):
            return held
        self._pool.compact(obj, held)
        return obj

    def replace(self, found: Mapping[Key, T], version: str) -> Iterator[None]:
        gone = [(key, None) for key in self.objects.all_keys() if key not in found]
        for number, (key, obj) in enumerate(itertools.chain(gone, found.items()), start=1):
            self._set(key, obj)
            if number % TURN == 0:
                yield
        self.served = True
        self._count_sync()
        self._begin(version)

    def change(self, key: Key, new: T | None) -> None:
        self._count_event()
        self._set(key, new)

    def reach(self, version: str) -> None:
        self.position = int(version)
        self.error = None
        if self.doubtful:
            self.trust()
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for position, waiter in waiters:
                if position > self.position:
                    self._waiters.append((position, waiter))
                elif not waiter.done():
                    waiter.set_result(None)

    def doubt(self) -> None:
        self.session += not self.doubtful
        self.doubtful = True

    def trust(self) -> None:
        self.session += self.doubtful
        self.doubtful = False
        self.error = None

    def missing(self, version: str) -> None:
        """Its objects went with it, and at this version there was none."""
        for key in self.objects.all_keys():
            self._set(key, None)
        if self.served:
            logger.info("there is no such kind", extra={"kind": self.name, "version": version})
        self.served = False
        self.reach(version)
        self._synced.set()

    def trouble(self, error: Exception) -> None:
        self.error = error
        self._count_failure()

    # --- from the cache ---

    def handle(self, handler: Handler[T]) -> None:
        self._handlers.append(handler)
        for obj in self.objects:
            self._call(handler, None, obj)

    async def reached(self, position: int) -> None:
        if self.position < position:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((position, waiter))
            await waiter

    # --- inside ---

    def _begin(self, version: str) -> None:
        self.reach(version)
        about = {"kind": self.name, "objects": len(self.objects), "version": version}
        logger.info("kind was read anew" if self._synced.is_set() else "kind was read", extra=about)
        self._synced.set()

    def _set(self, key: Key, new: T | None) -> None:
        old = self.objects.get(key)
        if old is None and new is None:
            return
        if old is not None and new is not None:
            if _same(old, new):
                return
            if old.metadata.uid != new.metadata.uid:  # its deletion was missed
                self.objects.put(key, None)
                self._tell(old, None)
                old = None
        self.objects.put(key, new)
        self._tell(old, new)

    def _tell(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:  # one handler's bug must not keep the others from learning
            self._count_handler_error()
            obj = new if new is not None else old
            key = "" if obj is None else str(key_of(obj))
            logger.exception("handler failed", extra={"kind": self.name, "key": key})


def _same(old: Object, new: Object) -> bool:
    """A server that was restored from a backup may give one version to two states of an object, so they are compared too."""
    if old.metadata.resource_version != new.metadata.resource_version or old.metadata.uid != new.metadata.uid:
        return False
    return old == new
