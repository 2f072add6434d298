"""Makes room for those who wait in a ledger: deletes the oldest snapshots of its namespace, and no more than that takes.

The ledger says who waits and for what (`ledger/demand.py`), the caches say what there is. Both have to be of one moment: what
has gone and is still in the sums would be made up for twice. So the ledger is read live, and nothing is done before our caches
have seen as much as whoever wrote it. Each deletion is on condition of the version that was looked at, so that nothing goes
that was protected a moment ago. Whoever is killed leaves nothing behind: what is going counts as room that is being made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.amounts import Waiter, limit_on
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.charging.registry import Registry
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.ledger.service.expiry import Sightings
from ullage.policies.counts import candidates as found_in
from ullage.policies.counts.accounts import together
from ullage.policies.counts.api import SNAPSHOT_LIMITS
from ullage.policies.counts.candidates import Candidates
from ullage.policies.counts.charges import DIALECTS
from ullage.policies.counts.choice import Candidate, choose_for
from ullage.policies.counts.lookup import LimitLookup

WATCHES: Final[tuple[Kind[Any], ...]] = (SNAPSHOT_LIMITS, LEDGERS, *found_in.WATCHES)
WRITES: Final = (Write(LEDGERS, ("get",)), *(Write(one.snapshots, ("delete",)) for one in DIALECTS))
LOOK: Final = 1.0  # seconds after which there is another look while somebody waits
BETWEEN: Final = 0.25  # seconds between two looks, at least: a ledger may be written many times a second
BEHIND: Final = 0.1  # seconds until our caches may have seen as much as others
FORGOTTEN: Final = 15.0  # seconds after which nothing is deleted for one who has not asked again
EVICTED: Final = Reason("DeletedOldest")
MADE_ROOM: Final = Reason("DeletedOldest")

T = TypeVar("T", bound=Object)


class EvictionClient(Protocol):
    """What is needed of a `kube.Client`."""

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None: ...

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", resource_version: str = ""
    ) -> None: ...


class Evictor:
    def __init__(
        self,
        client: EvictionClient,
        ledgers: Cache[Ledger],
        *,
        registry: Registry,
        limits: LimitLookup,
        candidates: Candidates,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._ledgers = ledgers
        self._registry = registry
        self._limits = limits
        self._candidates = candidates
        self._recorder = recorder
        self._clock = clock
        self._waiting: dict[str, _Watched] = {}  # by namespace

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        """What goes wakes nobody: while anybody waits, there is a look each second."""
        sources: list[Source[Any, Key]] = [Source(self._ledgers, _waited_for)]
        return Controller("snapshot-eviction", sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace = key.name
        if not together(self._limits.of(namespace)).delete_oldest:
            self._waiting.pop(namespace, None)
            return None
        watched = self._waiting.setdefault(namespace, _Watched())
        if (wait := watched.looked_at + BETWEEN - self._clock.monotonic()) > 0:
            return Requeue(wait)
        watched.looked_at = self._clock.monotonic()
        ledger = await self._client.find(LEDGERS, ledger_name(namespace), LEDGER_NAMESPACE)
        if ledger is None or not ledger.status.waiting:
            self._waiting.pop(namespace, None)
            return None
        book = self._registry.folded(ledger)
        if book is None:
            return Requeue(BEHIND)
        silent = set(watched.waiting.older(book.waiting, self._clock.monotonic(), than=FORGOTTEN))
        waiting = {key: one for key, one in book.waiting.items() if key not in silent}
        wanted = (cell for one in waiting.values() for cell in one.takes if limit_on(book.limits, cell) is not None)
        choice, served = choose_for(book, waiting, self._candidates.of(namespace, wanted))
        for one in choice.delete:
            await self._delete(one, namespace, served)
        return Requeue(LOOK)

    async def _delete(self, candidate: Candidate, namespace: str, served: tuple[str, ...]) -> None:
        """The cache may have news by now, of one that was deleted after many others. What was chosen is what was looked at: it
        is deleted as that, or left to the next look."""
        found = self._candidates.find(candidate.key, namespace)
        if found is None:
            return
        kind, obj = found
        try:
            await self._client.delete(kind, candidate.name, namespace, uid=candidate.uid, resource_version=candidate.version)
        except (NotFound, Conflict):
            return  # it has gone, or changed: the next look tells
        first = served[0].rpartition("/")[2] if served else ""
        more = f" and {len(served) - 1} more" if len(served) > 1 else ""
        self._recorder.record(
            kind, obj, EVICTED, note=f"The oldest that may be deleted: it makes room for {first}{more}, which would not fit."
        )
        for limit in self._limits.of(namespace):
            note = f"Deleted VolumeSnapshot {candidate.name}, the oldest that may be, to make room for {first}{more}."
            self._recorder.record(SNAPSHOT_LIMITS, limit, MADE_ROOM, note=note)


@dataclass(slots=True)
class _Watched:
    """A namespace where somebody waits."""

    looked_at: float = -math.inf
    waiting: Sightings[str, Waiter] = field(default_factory=Sightings)


def _waited_for(ledger: Ledger) -> Iterable[Key]:
    namespace = namespace_of(ledger.metadata.name)
    return (Key("", namespace),) if namespace and ledger.status.waiting else ()
