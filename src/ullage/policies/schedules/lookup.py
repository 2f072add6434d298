"""The caches, read in this slice's terms: schedules of a group, snapshots that schedules made, claims of a namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ullage.kube.builtin.core import PersistentVolumeClaim
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.slices import Wiring
from ullage.policies.schedules.api import SCHEDULES, SnapshotSchedule
from ullage.policies.schedules.model import Scheduled, group_of, read_scheduled
from ullage.selectors import LabelSelector
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.lookup import VolumeLookup, volume_lookup
from ullage.snapshots.model import Dialect

DIALECTS: Final[dict[str, Dialect[Any, Any]]] = {GA.name: GA, PROTOTYPE.name: PROTOTYPE}
BY_GROUP: Final = "group of schedules"
MAKING: Final = "in the making by a schedule"
BY_NAMESPACE: Final = "namespace, for schedules"


@dataclass(frozen=True, slots=True)
class ScheduleLookup:
    schedules: Cache[SnapshotSchedule]
    volumes: VolumeLookup
    snapshots: dict[str, Cache[Any]]  # by dialect

    def __post_init__(self) -> None:
        self.schedules.index(BY_GROUP, lambda one: (str(Key(one.metadata.namespace, group_of(one))),))
        self.volumes.claims.index(BY_NAMESPACE, lambda one: (one.metadata.namespace,))
        for name, cache in self.snapshots.items():
            cache.index(BY_GROUP, partial(self._groups, name))
            cache.index(MAKING, partial(self._makers, name))

    def read(self, dialect: str, obj: Any) -> Scheduled | None:
        return read_scheduled(DIALECTS[dialect].read_snapshot(obj), dialect)

    def get(self, dialect: str, key: Key) -> Scheduled | None:
        found = self.snapshots[dialect].get(key)
        return self.read(dialect, found) if found is not None else None

    def of_group(self, schedule: SnapshotSchedule) -> list[Scheduled]:
        """All snapshots of its group, of both APIs: which of them it uses may be edited, and what was made stays."""
        return self._found(BY_GROUP, str(Key(schedule.metadata.namespace, group_of(schedule))))

    def holding(self, schedule: SnapshotSchedule) -> list[Scheduled]:
        """What it has in the making that reports no problem."""
        return self._found(MAKING, str(key_of(schedule)))

    def making(self, schedule: SnapshotSchedule, claim: str) -> list[Scheduled]:
        """What it has in the making of a claim."""
        return self._found(MAKING, f"{key_of(schedule)}/{claim}")

    def _found(self, index: str, value: str) -> list[Scheduled]:
        found = (self.read(dialect, one) for dialect, cache in self.snapshots.items() for one in cache.by(index, value))
        return [one for one in found if one is not None]

    def sharing(self, dialect: str, obj: Any) -> Iterable[Key]:
        """The schedules of the group of a snapshot."""
        found = self.read(dialect, obj)
        if found is None:
            return ()
        place = str(Key(found.snapshot.meta.namespace, found.group))
        return (key_of(one) for one in self.schedules.by(BY_GROUP, place))

    def claims(self, namespace: str, selector: LabelSelector) -> list[PersistentVolumeClaim]:
        found = self.volumes.claims.by(BY_NAMESPACE, namespace)
        return [one for one in found if selector.matches(one.metadata.labels)]

    def _groups(self, dialect: str, obj: Any) -> Iterable[str]:
        found = self.read(dialect, obj)
        return (str(Key(found.snapshot.meta.namespace, found.group)),) if found is not None else ()

    def _makers(self, dialect: str, obj: Any) -> Iterable[str]:
        """By schedule and claim; those without a problem by schedule, too. Thousands may report one, and a look at a schedule
        is not to read them all."""
        found = self.read(dialect, obj)
        if found is not None and found.making:
            schedule = Key(found.snapshot.meta.namespace, found.schedule)
            yield f"{schedule}/{found.claim}"
            if found.quiet:
                yield str(schedule)


def schedule_lookup(wiring: Wiring) -> ScheduleLookup:
    """Through `wiring.shared`: once for each wiring, since indexes have names."""
    snapshots = {name: wiring.cache(dialect.snapshots) for name, dialect in DIALECTS.items()}
    return ScheduleLookup(wiring.cache(SCHEDULES), volume_lookup(wiring), snapshots)
