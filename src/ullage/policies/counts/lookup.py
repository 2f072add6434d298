"""The SnapshotLimits of a namespace, from the cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.slices import Wiring
from ullage.policies.counts.api import SNAPSHOT_LIMITS, SnapshotLimit

_NAMESPACE: Final = "counts: namespace of a limit"


class LimitLookup:
    """To be made while a part is that declares to watch them, through `wiring.shared`."""

    def __init__(self, wiring: Wiring) -> None:
        self._limits: Cache[SnapshotLimit] = wiring.cache(SNAPSHOT_LIMITS)
        self._limits.index(_NAMESPACE, _namespace)

    def of(self, namespace: str) -> list[SnapshotLimit]:
        return self._limits.by(_NAMESPACE, namespace)


def _namespace(limit: SnapshotLimit) -> Iterable[str]:
    return (limit.metadata.namespace,)
