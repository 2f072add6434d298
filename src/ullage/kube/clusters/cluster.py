"""One cluster besides our own: a client with one set of credentials, and what is watched there with it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeVar

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.reflector import WatchTiming
from ullage.kube.client.client import Client, Reader
from ullage.kube.clusters.budget import Budget, BudgetedReader
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import ClusterGauges, Metrics
from ullage.kube.read_limits import ReadLimits

T = TypeVar("T", bound=Object)

LONGEST_ERROR: Final = 500  # characters


@dataclass(frozen=True, slots=True)
class Reach:
    """Whether a cluster can be read now. What was read of it before stays, however long it cannot.

    `error` says why not; or what is wrong with newer credentials, while those of before still serve.
    """

    reachable: bool
    heard: datetime | None = None  # when it was last heard of; None: never
    error: str = ""


class Cluster:
    """Open it with `async with`. Caches begin to read when they are asked for, and are shared: the same kind and selection is
    the same cache."""

    def __init__(
        self,
        name: str,
        client: Client,
        *,
        kinds: frozenset[Kind[Any]],
        clock: Clock,
        metrics: Metrics | None = None,
        limits: ReadLimits | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self._kinds = kinds
        self._clock = clock
        self._metrics = metrics
        self._budget = Budget(name, limits) if limits is not None else None
        if metrics is not None and self._budget is not None:
            metrics.show_cluster(ClusterGauges(name, lambda: self.held, self._budget.limits.held, lambda: self.reach.reachable))
        self._caches: dict[tuple[Kind[Any], str, str, str], Cache[Any]] = {}
        self._reading: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        if self._metrics is not None:
            self._metrics.forget(self.name)
        with contextlib.suppress(OSError):
            await self.client.__aexit__()

    def cache(self, kind: Kind[T], *, namespace: str = "", labels: str = "", fields: str = "") -> Cache[T]:
        if kind not in self._kinds:
            raise LookupError(f"{kind.name}: not among what any slice says that it watches in other clusters")
        key = (kind, namespace, labels, fields)
        if key not in self._caches:
            made = Cache(
                self._reader(kind),
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                clock=self._clock,
                metrics=self._metrics,
                cluster=self.name,
                timing=WatchTiming(turns=self._budget is not None),
            )
            self._caches[key] = made
            self._reading.append(asyncio.create_task(made.run(), name=f"cache {kind.name} in {self.name}"))
        found: Cache[T] = self._caches[key]
        return found

    def _reader(self, kind: Kind[Any]) -> Reader:
        return self.client if self._budget is None else BudgetedReader(self.client, kind.name, self._budget)

    @property
    def held(self) -> int:
        """Bytes that all caches take, where that is limited."""
        return self._budget.held if self._budget is not None else 0

    @property
    def reach(self) -> Reach:
        """By what is watched there: all of it, or it is not reachable."""
        caches = self._caches.values()
        trouble = [f"{cache.kind.name}: {cache.error}" for cache in caches if cache.error is not None]
        silent = [f"{cache.kind.name}: not read yet" for cache in caches if not cache.synced.is_set()]
        ages = [cache.age() or 0.0 for cache in caches if cache.synced.is_set()]
        heard = self._clock.now() - timedelta(seconds=max(ages)) if ages else None
        wrong = trouble or silent or ([] if caches else ["nothing is watched there"])
        return Reach(not wrong, heard, short(next(iter(wrong), "")))


def short(error: str) -> str:
    """What a server says may be of any length."""
    return error if len(error) <= LONGEST_ERROR else f"{error[:LONGEST_ERROR]}…"
