"""A controller: events of some caches become keys, workers reconcile the keys.

Level-triggered: `reconcile(key)` is told which object may need it, never what happened. What it raises decides what comes next:

    returns None          at rest until something changes
    returns Requeue       again after that time at the latest
    returns Outcome       as it says; its sentence is logged: INFO where something was done, DEBUG where nothing was
    Retryable             again after a backoff that grows with each failure in a row; logged, a Conflict only for debugging
    Terminal              counted and logged; at rest until something changes, or for `after_terminal` seconds
    anything else         a bug: logged with its traceback, then like Retryable
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ullage.clock import Clock, SystemClock
from ullage.errors import Retryable, Terminal
from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.controller.outcome import Outcome
from ullage.kube.controller.pace import Pace
from ullage.kube.controller.queue import Closed, Queue
from ullage.kube.errors import Conflict
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import Metrics, QueueGauges

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)

REPEATED = 3  # failures in a row; fewer are the ordinary kind: a conflict, a server that restarts
LONGEST_RUN = 300.0


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconcile this key again, `after` seconds from now at the latest."""

    after: float


Reconcile = Callable[[K], Awaitable[Outcome | Requeue | None]]


@dataclass(frozen=True, slots=True)
class Source(Generic[T, K]):
    """A cache that wakes a controller: from a changed object to the keys that depend on it.

    An object that changed is mapped as it was and as it is, so that whoever depended on it before learns of it too.
    """

    cache: Cache[T]
    keys: Callable[[T], Iterable[K]]
    when: Callable[[T | None, T | None], bool] = lambda old, new: True
    forgets_pace: bool = False  # a key whose object goes need not wait: the next object of that name is another one

    def affected(self, old: T | None, new: T | None) -> Iterable[K]:
        if not self.when(old, new):
            return ()
        found = {} if old is None else dict.fromkeys(self.keys(old))
        return found if new is None else found | dict.fromkeys(self.keys(new))


def own(cache: Cache[T]) -> Source[T, Key]:
    """The kind that the controller is about: each object wakes itself."""
    return Source(cache, lambda obj: (key_of(obj),), forgets_pace=True)


def owned(cache: Cache[T], *, by: Kind[Any]) -> Source[T, Key]:
    """A kind that the controller makes: each object wakes the one that controls it."""
    return Source(cache, lambda obj: _controllers(obj, by))


def _controllers(obj: Object, kind: Kind[Any]) -> Iterable[Key]:
    namespace = obj.metadata.namespace if kind.namespaced else ""
    for owner in obj.metadata.owner_references:
        group, _, _ = owner.api_version.rpartition("/")  # the version is the writer's choice, the group is the kind's
        if owner.controller and owner.kind == kind.kind and group == kind.group:
            yield Key(namespace, owner.name)


class Controller(Generic[K]):
    def __init__(
        self,
        name: str,
        sources: Sequence[Source[Any, K]],
        reconcile: Reconcile[K],
        *,
        workers: int = 4,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
        metrics: Metrics | None = None,
        longest_run: float = LONGEST_RUN,
        after_terminal: float | None = None,
        pace: float = 0.0,
    ) -> None:
        """`after_terminal` is for those who call somebody whose changes nothing tells of: after so many seconds a key is
        tried again that was given up. `pace` is the shortest time, in seconds, from a run that did something, as its Outcome
        says, to the next run of the same key."""
        self.name = name
        self._reconcile = reconcile
        self._sources = tuple(sources)
        self._workers = workers
        self._clock = clock or SystemClock()
        self._longest_run = longest_run
        self._after_terminal = after_terminal
        self._pace: Pace[K] = Pace(pace, clock=self._clock)
        self._stopped = asyncio.Event()
        self._ended = False
        metrics = metrics or Metrics()
        self._count = {result: metrics.reconciles.labels(name, result) for result in _RESULTS}
        self._seconds = metrics.reconcile_seconds.labels(name)
        self.queue: Queue[K] = Queue(clock=self._clock, backoff=backoff, waited=metrics.queue_latency.labels(name).observe)
        queue = self.queue
        metrics.show_queue(QueueGauges(name, lambda: len(queue), lambda: queue.waiting, lambda: queue.running))
        for source in self._sources:
            source.cache.handle(self._handler(source))

    def _handler(self, source: Source[T, K]) -> Callable[[T | None, T | None], None]:
        def changed(old: T | None, new: T | None) -> None:
            for key in source.affected(old, new):
                if source.forgets_pace and new is None:
                    self._pace.forget(key)
                self.queue.add(key)

        return changed

    async def run(self) -> None:
        """Works until `stop`. Begins when every cache is synced: before that, what is missing may be there."""
        if not await self._started():
            return
        logger.info("controller started", extra={"controller": self.name, "workers": self._workers})
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(), name=f"{self.name}/{number}") for number in range(self._workers)]
            with self._ending():
                await asyncio.wait(workers)

    def stop(self) -> None:
        """No key is begun after this; `run` returns when those that run are done."""
        self._stopped.set()
        self.queue.close()

    async def _started(self) -> bool:
        """Waits for the caches; False if it was stopped before they were there."""
        synced = asyncio.create_task(self._synced())
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait((synced, stopped), return_when=asyncio.FIRST_COMPLETED)
            return not self._stopped.is_set()
        finally:
            synced.cancel()
            stopped.cancel()

    async def _synced(self) -> None:
        """One after the other, in one task: a cancelled `gather` that nobody awaits is reported as an error of its own."""
        for source in self._sources:
            await source.cache.synced.wait()

    async def _work(self) -> None:
        with self._ending():
            while not self._ended:
                try:
                    key = await self.queue.take()
                except Closed:
                    return
                started = self._clock.monotonic()
                result = await self._run_once(key)
                self._count[result].inc()
                self._seconds.observe(self._clock.monotonic() - started)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Tells every worker of a cancellation or a bug that ends one: a call that is cancelled as it fails may say only that
        it failed, and whoever made it would go on. `Task.cancelling` does not tell: before Python 3.13 a `TaskGroup` one of
        whose tasks fails leaves it raised, and reconcilers use those.
        """
        try:
            yield
        except BaseException:
            self._ended = True
            raise

    async def _run_once(self, key: K) -> str:
        """One run and what follows from it for the key; how it ended, in a word."""
        if wait := self._pace.wait(key):  # before the look: a ledger that is written many times a second is read once
            self.queue.done(key, after=wait)
            return "requeued"
        try:
            async with asyncio.timeout(self._longest_run):
                outcome = await self._reconcile(key)
        except asyncio.CancelledError as error:
            if not self._ended:  # nobody cancels us: a call was, such as one whose gRPC channel is closed under it
                return self._settle(key, Retryable(f"a call was cancelled: {error}" if str(error) else "a call was cancelled"))
            self.queue.done(key)
            raise
        except Exception as error:
            return self._settle(key, error)
        if isinstance(outcome, Outcome):
            self._tell(key, outcome)
            if outcome.acted and outcome.paced:
                self._pace.acted(key)
        after = None if outcome is None else outcome.after
        self.queue.done(key, after=after)
        return "done" if after is None else "requeued"

    def _tell(self, key: K, outcome: Outcome) -> None:
        level = logging.INFO if outcome.acted else logging.DEBUG
        if logger.isEnabledFor(level):
            delay = {} if outcome.after is None else {"delay": outcome.after}
            logger.log(level, "%s", outcome.sentence, extra={"controller": self.name, "key": str(key), **delay})

    def _settle(self, key: K, error: Exception) -> str:
        where = {"controller": self.name, "key": str(key)}
        if _all(error, Terminal):
            self.queue.done(key, after=self._after_terminal)
            more = {} if self._after_terminal is None else {"delay": self._after_terminal}
            logger.warning("reconcile gave up until something changes", extra={**where, "error": _said(error), **more})
            return "terminal"
        delay = self.queue.failed(key, at_least=_retry_after(error))
        if _all(error, Retryable):
            usual = logging.DEBUG if _all(error, Conflict) else logging.INFO
            level = logging.WARNING if self.queue.failures(key) > REPEATED else usual
            logger.log(level, "reconcile will be tried again", extra={**where, "error": _said(error), "delay": delay})
            return "retry"
        logger.error("reconcile failed", extra={**where, "delay": delay}, exc_info=error)
        return "error"


_RESULTS = ("done", "requeued", "retry", "terminal", "error")


def _each(error: BaseException) -> Iterator[BaseException]:
    """The error, or each one in a group of them: a reconciler may act in parallel."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _each(inner)
    else:
        yield error


def _all(error: BaseException, kind: type[Exception]) -> bool:
    return all(isinstance(one, kind) for one in _each(error))


def _said(error: BaseException) -> str:
    return "; ".join(dict.fromkeys(map(str, _each(error))))


def _retry_after(error: BaseException) -> float:
    return max(getattr(one, "retry_after", None) or 0.0 for one in _each(error))


async def run(
    caches: Iterable[Cache[Any]], controllers: Iterable[Controller[Any]], *, stop: asyncio.Event, grace: float = 20.0
) -> None:
    """Runs caches and controllers until `stop` is set; then lets what is being reconciled finish, for `grace` seconds.

    If one of them dies, all do, and the error is raised: whoever started the process starts it again.
    """
    controllers = list(controllers)
    reading = [asyncio.create_task(cache.run(), name=f"cache {cache.kind.name}") for cache in caches]
    working = [asyncio.create_task(controller.run(), name=controller.name) for controller in controllers]
    stopping = asyncio.create_task(stop.wait())
    try:
        ended, _ = await asyncio.wait((stopping, *reading, *working), return_when=asyncio.FIRST_COMPLETED)
        for controller in controllers:
            controller.stop()
        if stopping in ended and working:
            await asyncio.wait(working, timeout=grace)
    finally:
        for task in (stopping, *reading, *working):
            task.cancel()
        results = await asyncio.gather(*reading, *working, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
