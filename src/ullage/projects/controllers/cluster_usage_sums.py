"""What the Machines of each followed cluster take together, kept by increments: an event costs the same whatever is there.

What a Machine takes is what its stamp says, if that is signed for it and no less than it was. Any other takes what the record
holds against it; where it holds nothing yet the Machine is in no sum, and is kept by its name with the reason. Sums are of one
client's reading: when a cluster is followed anew, so they are begun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.clusters.cluster import Cluster as FollowedCluster
from ullage.kube.clusters.clusters import Clusters
from ullage.ledger.amounts import Amounts
from ullage.projects.api.machines import MACHINES, Machine
from ullage.projects.charging.presence import RecordChanges
from ullage.projects.machines.counting import Counted, Remembered, count, taken
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import SigningKeys, verify
from ullage.quantity import Quantity

Keys = Callable[[], SigningKeys | None]
Remembering = Callable[[str, str], Remembered | None]  # by cluster and uid: what the record has of a Machine

NO_KEY: Final = "the key of stamps was not read yet"


@dataclass(slots=True)
class MachineSum:
    """Of one cluster. `cells` are by resource, `uncounted` by namespace and name."""

    cache: Cache[Machine]
    cells: dict[str, Quantity] = field(default_factory=dict)
    uncounted: dict[str, str] = field(default_factory=dict)
    counted: dict[Key, Amounts] = field(default_factory=dict)

    @property
    def amounts(self) -> Amounts:
        return Amounts(self.cells)

    @property
    def problem(self) -> str:
        """Why this is not what is there now; empty: it is."""
        if self.cache.error is not None:
            return str(self.cache.error)
        return "" if self.cache.synced.is_set() else "they were not read yet"

    def put(self, machine: Machine, found: Amounts | str) -> None:
        """In place of what the Machine counted before."""
        self.remove(machine)
        if isinstance(found, str):
            self.uncounted[str(key_of(machine))] = found
            return
        self.counted[key_of(machine)] = found
        for resource, quantity in found.cells.items():
            self.cells[resource] = self.cells[resource] + quantity if resource in self.cells else quantity

    def remove(self, machine: Machine) -> None:
        self.uncounted.pop(str(key_of(machine)), None)
        before = self.counted.pop(key_of(machine), None)
        for resource, quantity in before.cells.items() if before is not None else ():
            self.cells[resource] -= quantity
            if not self.cells[resource].nanos:
                del self.cells[resource]


class MachineSums:
    """`only` says by name which of the followed clusters are user clusters. `keys` gives None while no key was read."""

    def __init__(self, clusters: Clusters, keys: Keys, *, only: Callable[[str], bool], remembered: Remembering) -> None:
        self._keys = keys
        self._remembered = remembered
        self._only = only
        self._sums: dict[str, MachineSum] = {}
        self._handlers: list[Callable[[str], None]] = []
        clusters.handle(self._follow)

    def get(self, cluster: str) -> MachineSum | None:
        """None: it is not followed, or has no credentials that can be used."""
        return self._sums.get(cluster)

    def handle(self, changed: Callable[[str], None]) -> None:
        """Has the name of each cluster told in which something counts otherwise."""
        self._handlers.append(changed)

    def renew(self) -> None:
        """Looks at every Machine again: other keys sign, or are accepted."""
        for name, found in self._sums.items():
            for machine in found.cache.items():
                found.put(machine, self._taken(name, machine))
            self._tell(name)

    def recorded(self, cluster: str, changes: RecordChanges) -> None:
        """Looks again at Machines that are recorded otherwise than they were."""
        found = self._sums.get(cluster)
        if found is None:
            return
        for key, least in changes.items():
            counted, machine = found.counted.get(key), found.cache.get(key)
            if machine is not None and (least is None or counted is None or not least <= counted):
                found.put(machine, self._taken(cluster, machine))
                self._tell(cluster)

    def _follow(self, name: str, cluster: FollowedCluster | None) -> None:
        if cluster is None or not self._only(name):
            if self._sums.pop(name, None) is not None:
                self._tell(name)
            return
        found = self._sums[name] = MachineSum(cluster.cache(MACHINES))

        def changed(old: Machine | None, new: Machine | None) -> None:
            if not _matters(name, old, new):
                return
            if new is not None:
                found.put(new, self._taken(name, new))
            elif old is not None:
                found.remove(old)
            self._tell(name)

        found.cache.handle(changed)

    def _taken(self, cluster: str, machine: Machine) -> Amounts | str:
        keys = self._keys()
        if keys is None:
            return NO_KEY
        facts = machine_facts(cluster, machine)
        remembered = self._remembered(cluster, facts.uid)
        found = count(facts, verify(facts, keys), remembered=remembered)
        amounts = taken(facts, found, remembered=remembered)
        if amounts is None:
            return "" if isinstance(found, Counted) else found.message
        return amounts

    def _tell(self, cluster: str) -> None:
        for handler in self._handlers:
            handler(cluster)


def _matters(cluster: str, old: Machine | None, new: Machine | None) -> bool:
    """Most of what is written to a Machine is how it does."""
    return old is None or new is None or machine_facts(cluster, old) != machine_facts(cluster, new)
