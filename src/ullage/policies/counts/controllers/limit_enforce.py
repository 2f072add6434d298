"""From SnapshotLimits to the limits of a ledger. Keys are namespaces: what has to go is found by its ledger, too.

All is decided from what is there, so two of these at once only do the same twice. A ledger is made with the first limit, stays
when that is deleted, since it counts, and goes with its namespace (`space` sees to that).
"""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.ledger.limits import has_limits
from ullage.ledger.service.limits import LimitsApi, set_limits
from ullage.policies.counts.accounts import COUNTS, together
from ullage.policies.counts.api import SNAPSHOT_LIMITS, SnapshotLimit
from ullage.policies.counts.lookup import LimitLookup

WATCHES: Final = (SNAPSHOT_LIMITS, LEDGERS)
WRITES: Final = (Write(LEDGERS, ("create", "patch")),)


class CountEnforcer:
    def __init__(self, client: LimitsApi, limits: Cache[SnapshotLimit], ledgers: Cache[Ledger], *, lookup: LimitLookup) -> None:
        self._client = client
        self._limits = limits
        self._ledgers = ledgers
        self._lookup = lookup

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._limits, lambda limit: _key(limit.metadata.namespace), when=_other_spec),
            Source(self._ledgers, lambda ledger: _key(namespace_of(ledger.metadata.name)), when=_other_spec),
        ]
        return Controller("snapshot-limits", sources, self.reconcile, metrics=metrics)

    async def reconcile(self, key: Key) -> None:
        namespace = key.name
        wanted = together(self._lookup.of(namespace)).cells
        ledger = self._ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(namespace)))
        if ledger is None and not wanted:
            return
        if ledger is None or not has_limits(ledger.spec, wanted, about=COUNTS):
            await set_limits(self._client, ledger_name(namespace), wanted, about=COUNTS)


def _key(namespace: str) -> tuple[Key, ...]:
    return (Key("", namespace),) if namespace else ()


def _other_spec(old: Any, new: Any) -> bool:
    """What is booked, and what a status says, is none of our business."""
    return old is None or new is None or old.spec != new.spec
