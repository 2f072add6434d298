"""Which Machines of each user cluster are recorded, and which of those are not there any more: in memory, by every event.

A Machine that goes makes room in what is counted of its cluster, and the record that has it count on (`api/records.py`) is
written by another process, a moment later. In between nobody may believe that there is room. So no process folds a cluster's
Machines into a ledger while one is missing there that the record, as the same process sees it, still has among those present.

What a Machine counts depends on the record as well: no less than is recorded of it, and that much where its stamp cannot be
believed. So whoever counts is told which Machines are recorded otherwise than they were.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.clusters.cluster import Cluster as FollowedCluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.slices import Wiring
from ullage.ledger.amounts import Amounts
from ullage.projects.api.machines import MACHINES, Machine
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord
from ullage.projects.machines.counting import Remembered
from ullage.projects.records import BadRecord, RecordedAmounts, recorded_in

logger = logging.getLogger(__name__)

RecordChanges = Mapping[Key, Amounts | None]
"""The Machines of one cluster that are recorded otherwise than they were. Those that were not recorded before come with what
they are recorded with: that is news where they count less. None: it is news in any case."""


@dataclass(slots=True)
class _Presence:
    recorded: RecordedAmounts = field(default_factory=RecordedAmounts)
    present: dict[str, Key] = field(default_factory=dict)  # by uid
    missing: set[str] = field(default_factory=set)
    readable: bool = True
    cluster: FollowedCluster | None = None  # whose events are believed


class RecordedMachines:
    def __init__(self, records: Cache[MachineRecord], clusters: Clusters) -> None:
        self.records = records
        self._by_cluster: defaultdict[str, _Presence] = defaultdict(_Presence)
        self._handlers: list[Callable[[str, RecordChanges], None]] = []
        records.handle(self._recorded)
        clusters.handle(self._followed)

    def is_settled(self, cluster: str) -> bool:
        """Whether every Machine that went is taken out of the record's list, to count on there or not. A record that cannot be
        read may have any."""
        found = self._by_cluster.get(cluster)
        return found is None or (found.readable and not found.missing)

    def remembered(self, cluster: str, uid: str) -> Remembered | None:
        """What a Machine has counted at most, as the record has it."""
        found = self._by_cluster.get(cluster)
        amounts = found.recorded.amounts.get(uid) if found is not None else None
        return None if found is None or amounts is None else Remembered(uid, amounts, held=uid in found.recorded.held)

    def handle(self, changed: Callable[[str, RecordChanges], None]) -> None:
        """Has it told by cluster which of the Machines that are there are recorded otherwise than they were."""
        self._handlers.append(changed)

    def _recorded(self, old: MachineRecord | None, new: MachineRecord | None) -> None:
        some = new or old
        if some is None or (old is not None and new is not None and old.status.machines == new.status.machines):
            return
        found = self._by_cluster[some.metadata.name]
        before = found.recorded
        try:
            found.recorded, found.readable = recorded_in(new) if new is not None else RecordedAmounts(), True
        except BadRecord as error:
            found.readable = False
            logger.error("what was recorded of a cluster's machines cannot be read", extra={"error": str(error)})
        found.missing = found.recorded.amounts.keys() - found.present.keys()
        if changes := record_changes(before, found.recorded, found.present):
            for handler in self._handlers:
                handler(some.metadata.name, changes)
        self._tidy(some.metadata.name)

    def _followed(self, name: str, cluster: FollowedCluster | None) -> None:
        found = self._by_cluster[name]
        found.cluster, found.present, found.missing = cluster, {}, set(found.recorded.amounts)
        if cluster is None:
            self._tidy(name)
            return

        def changed(old: Machine | None, new: Machine | None) -> None:
            if found.cluster is not cluster:
                return  # it was read with a client that is not used any more
            if old is not None:
                found.present.pop(old.metadata.uid, None)
                if old.metadata.uid in found.recorded.amounts:
                    found.missing.add(old.metadata.uid)
            if new is not None:
                found.present[new.metadata.uid] = key_of(new)
                found.missing.discard(new.metadata.uid)

        cluster.cache(MACHINES).handle(changed)

    def _tidy(self, name: str) -> None:
        found = self._by_cluster[name]
        if found.cluster is None and found.readable and not found.recorded.amounts:
            del self._by_cluster[name]


def record_changes(before: RecordedAmounts, after: RecordedAmounts, present: Mapping[str, Key]) -> dict[Key, Amounts | None]:
    """See RecordChanges. Most amounts are one value for many Machines: each two of those are compared once."""
    alike: dict[tuple[int, int], bool] = {}
    found: dict[Key, Amounts | None] = {}
    for uid, key in present.items():
        old, new = before.amounts.get(uid), after.amounts.get(uid)
        both = id(old), id(new)
        if both not in alike:
            alike[both] = old == new
        if alike[both] and (uid in before.held) is (uid in after.held):
            continue
        found[key] = new if old is None and uid not in after.held else None
    return found


def recorded_machines(wiring: Wiring) -> RecordedMachines:
    """Those of this process: `wiring.shared(recorded_machines)`."""
    return RecordedMachines(wiring.cache(MACHINE_RECORDS), wiring.clusters)
