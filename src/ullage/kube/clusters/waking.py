"""Wakes controllers of our own cluster from what changes in others, which come and go while everything runs.

    found = Controller("project-quotas", sources, reconcile)
    wake(found.queue, wiring.clusters, SourceElsewhere(QUOTAS, lambda cluster, copy: (key_of(copy),)))
    wiring.shared(reach_watch).handle(lambda cluster: [found.queue.add(key) for key in all_keys()])

A `SourceElsewhere` is what a `Source` is at home. Unlike at home, nobody waits until everything was read: a controller that
looks before that finds a cluster that cannot be asked yet, and has to say so. When that changes, no object does: so there is a
`ReachWatch`, which tells of every cluster that comes into reach, falls out of it, or goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from ullage.kube.clusters.cluster import Cluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.controller.queue import Queue
from ullage.kube.kinds import Kind, Object

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)

EVERY: Final = 1.0  # seconds between two looks: nothing is asked for them


@dataclass(frozen=True, slots=True)
class SourceElsewhere(Generic[T, K]):
    """A kind of other clusters that wakes a controller: from a cluster's name and an object there to the keys that depend on
    it.

    Other parts of a process may follow other clusters: `only` says by name which of them are meant. To be declared in the
    part's `elsewhere`.
    """

    kind: Kind[T]
    keys: Callable[[str, T], Iterable[K]]
    when: Callable[[T | None, T | None], bool] = lambda old, new: True
    only: Callable[[str], bool] = lambda cluster: True
    namespace: str = ""

    def affected(self, cluster: str, old: T | None, new: T | None) -> Iterable[K]:
        """As it was and as it is: whoever depended on it before learns of it too."""
        if not self.when(old, new):
            return ()
        return dict.fromkeys(key for one in (old, new) if one is not None for key in self.keys(cluster, one))


def wake(queue: Queue[K], clusters: Clusters, source: SourceElsewhere[T, K]) -> None:
    """Has changes in every cluster that is followed, now or later, put their keys into a controller's queue."""

    def follow(name: str, cluster: Cluster | None) -> None:
        if cluster is None or not source.only(name):
            return

        def changed(old: T | None, new: T | None) -> None:
            for key in source.affected(name, old, new):
                queue.add(key)

        cluster.cache(source.kind, namespace=source.namespace).handle(changed)

    clusters.handle(follow)


class ReachWatch:
    """Looks now and then which clusters can be read, and tells when one can that could not, or the other way round."""

    def __init__(self, clusters: Clusters, *, every: float = EVERY) -> None:
        self._clusters = clusters
        self._every = every
        self._reachable: dict[str, bool] = {}
        self._handlers: list[Callable[[str], None]] = []
        self._looking: asyncio.Task[None] | None = None

    def handle(self, handler: Callable[[str], None]) -> None:
        """Has the name of each cluster told that comes into reach, falls out of it, is followed from now on, or no more."""
        self._handlers.append(handler)

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look(), name="reach of clusters")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    async def _look(self) -> None:
        while True:
            found = {name: self._clusters.reach(name).reachable for name in self._clusters.names}
            before, self._reachable = self._reachable, found
            for name in sorted({*before, *found}):
                if before.get(name) != found.get(name):
                    self._tell(name)
            await asyncio.sleep(self._every)

    def _tell(self, name: str) -> None:
        for handler in self._handlers:
            try:
                handler(name)
            except Exception:  # one handler's bug must not keep the others from learning
                logger.exception("handler failed", extra={"cluster": name})


class Wired(Protocol):
    """What is needed of a `Wiring`."""

    @property
    def clusters(self) -> Clusters: ...

    def hold(self, manager: AbstractAsyncContextManager[Any]) -> None: ...


def reach_watch(wiring: Wired) -> ReachWatch:
    """The one of this process: `wiring.shared(reach_watch)`."""
    made = ReachWatch(wiring.clusters)
    wiring.hold(made)
    return made
