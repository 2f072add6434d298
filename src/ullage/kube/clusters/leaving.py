"""Clusters that a process followed once, or may have, while what it registered in them is taken out.

Nothing is watched there. A cluster is here from the moment that it counts no more until its registration is known to be gone,
or until it counts again. Which those are follows from objects alone, so a process that was down at that moment, or is killed
in the middle, finds them again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ullage.kube.builtin.core import Secret
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.clusters.clusters import Clusters

Check = Callable[[], Awaitable[bool]]


class LeavingClusters:
    """`clusters` are apart from those that are followed: they give clients, and no caches are made of them."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._checks: dict[str, Check] = {}
        self._done: set[str] = set()

    def add(self, name: str, secrets: Cache[Secret], secret: Key, *, check: Check) -> None:
        """Has a cluster visited. `check` asks the API whether the cluster counts no more: a cache may not know it yet."""
        if name in self._done:
            return
        self._checks[name] = check
        self._clusters.follow(name, secrets, secret)

    def discard(self, name: str) -> None:
        """Ends the visits: the cluster is gone, or it is followed again and may leave anew."""
        self._done.discard(name)
        self._forget(name)

    def done(self, name: str) -> None:
        """Ends the visits: nothing of ours is registered there."""
        if name in self._checks:
            self._done.add(name)
        self._forget(name)

    async def counts_no_more(self, name: str) -> bool:
        check = self._checks.get(name)
        return check is not None and await check()

    def clients(self) -> Mapping[str, Client]:
        found = {name: self._clusters.get(name) for name in self._checks}
        return {name: cluster.client for name, cluster in found.items() if cluster is not None}

    def handle(self, handler: Callable[[], None]) -> None:
        """Has it called when there is a client to visit a cluster with."""
        self._clusters.handle(lambda name, cluster: handler() if cluster is not None else None)

    def _forget(self, name: str) -> None:
        if self._checks.pop(name, None) is not None:
            self._clusters.remove(name)
