"""Measures the volumes of drivers whose volumes nothing else tells of, at a set interval and after every snapshot, and writes
what was found on their PersistentVolumes.

A figure for estimates: what a snapshot really books is measured when it is taken. So it may be late, and nobody waits for it.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.errors import Terminal
from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolume
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Write
from ullage.snapshots.backends.base import Backend, InProgress, TakesTooLong
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.model import Snapshot
from ullage.snapshots.source_volume import SourceVolume, source_volume_of
from ullage.snapshots.used import USED, Used, estimated_by, read_used, written

# When a volume is measured again, and whether what was found is worth a write.


SELDOM: Final = 12  # times the interval, for volumes that nobody takes snapshots of
LONGEST: Final = 86_400.0  # seconds between two looks that take too long, unless the interval is longer
MOST_DOUBLINGS: Final = 32  # by then that is reached
PART: Final = 100  # a change by less than a hundredth is no news
LEAST: Final = 64 * 1024  # bytes: nor is one by less than this
OLD: Final = timedelta(hours=1)  # after a snapshot, what is older than this is written anew
_NEWEST: Final = 16  # snapshots of a claim that are looked at for the last cut


def is_measured(volume: PersistentVolume) -> bool:
    """A volume that no claim has gets no snapshot, so nobody asks what is in it."""
    ref = volume.spec.claim_ref
    return ref is not None and bool(ref.uid) and not is_deleting(volume.metadata)


def last_cut(snapshots: Iterable[Snapshot]) -> datetime | None:
    """Of a claim's snapshots, the newest of which come first."""
    cuts = [one.state.cut for _, one in zip(range(_NEWEST), snapshots, strict=False) if one.state.cut is not None]
    return max(cuts, default=None)


def time_between_measurements(interval: float, *, has_snapshots: bool) -> float:
    """Seconds from one measurement to the next."""
    return interval if has_snapshots else SELDOM * interval


def wait_after(interval: float, *, failures: int) -> float:
    """Seconds after so many looks in a row that took too long: each was as much work as is ever done, for nothing."""
    return min(interval * SELDOM * 2.0 ** min(failures - 1, MOST_DOUBLINGS), max(LONGEST, interval * SELDOM))


def spread(uid: str, seconds: float) -> float:
    """A part of the time that is always the same for a volume: they shall not come all at once after a start."""
    return seconds * (zlib.crc32(uid.encode()) / 2**32)


def is_news(known: Used | None, found: int, *, by: str, now: datetime, cut: datetime | None) -> bool:
    """Whether it is to be written. An idle volume costs no write, however old its figure becomes: it was found to be right
    again and again. One that snapshots are taken of shows a figure that is not older than an hour and the last snapshot."""
    if known is None or known.by != by:
        return True
    if abs(found - known.bytes) > max(known.bytes // PART, LEAST):
        return True
    return cut is not None and known.at < cut and now - known.at > OLD


logger = logging.getLogger(__name__)

WRITES: Final = (Write(PERSISTENT_VOLUMES, ("patch",)),)

WORKERS: Final = 2  # volumes at a time: looking at all their files is hard work for a disk
_AGAIN: Final = 5.0  # seconds until it is asked again how far a long look is


@dataclass(slots=True)
class _Schedule:
    """When a volume is next measured, and when it last was. The next process makes up its own."""

    uid: str
    due: float
    last: datetime
    failures: int = 0  # looks in a row that took too long


class VolumeMeasurer:
    """The controller of PersistentVolumes of these backends."""

    def __init__(
        self,
        client: Patcher,
        volumes: VolumeLookup,
        lookups: Sequence[SnapshotLookup],
        *,
        backends: Mapping[str, Backend],
        interval: float,
        clock: Clock | None = None,
    ) -> None:
        """`interval` is in seconds."""
        self._client = client
        self._volumes = volumes
        self._lookups = tuple(lookups)
        self._backends = backends
        self._interval = interval
        self._clock = clock or SystemClock()
        self._schedules: dict[Key, _Schedule] = {}

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [Source(self._volumes.volumes, lambda one: (key_of(one),), when=_matters)]
        sources += [Source(one.snapshots, self._volume_of(one), when=_is_cut(one)) for one in self._lookups]
        return Controller(
            "volume-measures",
            sources,
            self.reconcile,
            workers=WORKERS,
            clock=self._clock,
            metrics=metrics,
        )

    def _volume_of(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> Iterable[Key]:
            snapshot = lookup.dialect.read_snapshot(obj)
            volume = self._volumes.context(snapshot.meta.namespace, snapshot.claim).volume
            return (key_of(volume),) if volume is not None else ()

        return keys

    async def reconcile(self, key: Key) -> Requeue | None:
        volume = self._volumes.volumes.get(key)
        source = source_volume_of(volume) if volume is not None and is_measured(volume) else None
        if volume is None or source is None or not self._is_ours(source):
            self._schedules.pop(key, None)
            return None
        schedule, cut, now = self._schedule(key, volume), self._last_cut(volume), self._clock.monotonic()
        taken_since = cut is not None and schedule.last.replace(microsecond=0) <= cut  # a status has whole seconds
        if schedule.due > now and (schedule.failures or not taken_since):
            return Requeue(schedule.due - now)
        begun = self._clock.now()
        try:
            found = await self._backends[source.driver].estimate(source.volume)
        except InProgress:
            return Requeue(_AGAIN)
        except TakesTooLong as error:
            return self._put_off(key, schedule, error)
        except Terminal as error:
            # It lies where nothing is looked at, or is gone: no fault, and nothing to tell anybody every hour.
            logger.debug("a volume cannot be measured", extra={"volume": key.name, "error": str(error)})
            return Requeue(self._interval * SELDOM)
        if found is None:
            return None  # nobody can tell: the capacity is the only bound
        schedule.last, schedule.failures, schedule.due = begun, 0, self._clock.monotonic() + self._wait(volume)
        by = estimated_by(source.driver, found)
        if is_news(read_used(volume.metadata), found, by=by, now=begun, cut=cut):
            await self._write(volume, Used(bytes=found, at=begun, by=by))
        return Requeue(schedule.due - self._clock.monotonic())

    def _put_off(self, key: Key, schedule: _Schedule, error: TakesTooLong) -> Requeue:
        """Later and later: whoever takes a snapshot has it measured anyway, and until then the capacity counts, or what was
        found last."""
        schedule.failures += 1
        wait = wait_after(self._interval, failures=schedule.failures)
        schedule.due = self._clock.monotonic() + wait
        logger.warning("a volume takes too long to measure", extra={"volume": key.name, "error": str(error), "again_in": wait})
        return Requeue(wait)

    def _is_ours(self, source: SourceVolume) -> bool:
        backend = self._backends.get(source.driver)
        return backend is not None and (not backend.node or source.volume.node in ("", backend.node))

    def _schedule(self, key: Key, volume: PersistentVolume) -> _Schedule:
        """What was never measured is measured at once. All others are spread over their interval after a start."""
        uid = volume.metadata.uid
        found = self._schedules.get(key)
        if found is None or found.uid != uid:
            known = read_used(volume.metadata) is not None
            delay = spread(uid, self._wait(volume)) if known else 0.0
            found = self._schedules[key] = _Schedule(uid, self._clock.monotonic() + delay, self._clock.now())
        return found

    def _wait(self, volume: PersistentVolume) -> float:
        wait = time_between_measurements(
            self._interval, has_snapshots=any(True for found in self._snapshots(volume) for _ in found)
        )
        return 0.9 * wait + spread(volume.metadata.uid, 0.2 * wait)

    def _last_cut(self, volume: PersistentVolume) -> datetime | None:
        cuts = [last_cut(snapshots) for snapshots in self._snapshots(volume)]
        return max(filter(None, cuts), default=None)

    def _snapshots(self, volume: PersistentVolume) -> list[Iterable[Snapshot]]:
        """Of its claim, by API."""
        ref = volume.spec.claim_ref
        return [lookup.of_claim(ref.namespace, ref.name) for lookup in self._lookups] if ref is not None else []

    async def _write(self, volume: PersistentVolume, used: Used) -> None:
        change = {"metadata": {"annotations": {USED: written(used)}}}
        try:
            await self._client.patch(PERSISTENT_VOLUMES, volume.metadata.name, merge=change, uid=volume.metadata.uid)
        except (NotFound, Conflict):
            return  # it is gone: another one of the name is measured by itself


def _facts(volume: PersistentVolume) -> tuple[object, ...]:
    return volume.metadata.uid, is_measured(volume), source_volume_of(volume)


def _matters(old: PersistentVolume | None, new: PersistentVolume | None) -> bool:
    """Not what we write ourselves."""
    return old is None or new is None or _facts(old) != _facts(new)


def _is_cut(lookup: SnapshotLookup) -> Any:
    def cut(old: Any, new: Any) -> bool:
        read = lookup.dialect.read_snapshot
        return new is not None and read(new).state.cut is not None and (old is None or read(old).state.cut is None)

    return cut
