"""Writes on PersistentVolumes what the driver told of their last snapshot, where their StorageClass asks for that.

CSI tells nothing of what is in a volume, so a snapshot is asked for with the capacity. The annotation
`ullage.io/estimate-by: last-snapshot` on a StorageClass has it asked for with the size of the volume's last snapshot. The next
one may be larger, so its limit may be passed by the rest of the capacity: the class's Events say so, with the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from ullage.clock import Clock
from ullage.engines.handles import DRIVER as LONGHORN
from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolume
from ullage.kube.builtin.storage import STORAGE_CLASSES, StorageClass
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.ledger.amounts import spell
from ullage.ledger.charging.booking import RESOURCE
from ullage.ledger.charging.methods import LAST_SNAPSHOT
from ullage.quantity import Quantity
from ullage.snapshots.api.common import read_size
from ullage.snapshots.binding import refers_to
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.model import SIZE, Record
from ullage.snapshots.settings import HOSTPATH, Settings
from ullage.snapshots.source_volume import SourceVolume, source_volume_of
from ullage.snapshots.used import ESTIMATE_BY, USED, Used, read_used, written

ESTIMATED: Final = Reason("EstimatedByLastSnapshot")
_NEWEST: Final = 16  # snapshots of a claim that are looked at
_LONGEST: Final = 18  # digits of a size


class LastSizes:
    """The controller of PersistentVolumes of CSI drivers that are ours."""

    def __init__(
        self,
        client: Patcher,
        volumes: VolumeLookup,
        lookups: Sequence[SnapshotLookup],
        *,
        settings: Settings,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._volumes = volumes
        self._lookups = tuple(lookups)
        self._settings = settings
        self._recorder = recorder
        self._clock = clock

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._volumes.volumes, lambda one: (key_of(one),), when=_volume_matters),
            Source(self._volumes.classes, self._of_class, when=_class_matters),
            *(Source(one.records, _volume_of(one), when=_is_sized(one)) for one in self._lookups),
        ]
        return Controller("last-sizes", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_class(self, found: StorageClass) -> Iterable[Key]:
        return (key_of(one) for one in self._volumes.volumes.items() if one.spec.storage_class_name == found.metadata.name)

    async def reconcile(self, key: Key) -> None:
        volume = self._volumes.volumes.get(key)
        source = source_volume_of(volume) if volume is not None else None
        if volume is None or source is None or not self._is_told_of(source):
            return
        had, asked = read_used(volume.metadata), self._class(volume)
        if asked is None:
            if had is not None and had.by == LAST_SNAPSHOT:
                await self._write(volume, None)
            return
        found = self._last(volume, source)
        if found is None or (had is not None and had.by == LAST_SNAPSHOT and (had.bytes == found.bytes or had.at > found.at)):
            return
        await self._write(volume, found)
        capacity = read_size(volume.spec.capacity.get("storage", 0)) or 0
        left, size = (spell(RESOURCE, Quantity.of(one)) for one in (max(0, capacity - found.bytes), found.bytes))
        note = f"volume {key.name}: its last snapshot takes {size}. Estimated: the next may pass by up to {left}"
        self._recorder.record(STORAGE_CLASSES, asked, ESTIMATED, note=note)

    def _is_told_of(self, source: SourceVolume) -> bool:
        """Not of volumes that are measured."""
        return source.driver not in (HOSTPATH, LONGHORN) and self._settings.managed(source.driver)

    def _class(self, volume: PersistentVolume) -> StorageClass | None:
        """The volume's class, where it asks for this."""
        found = self._volumes.classes.get(Key("", volume.spec.storage_class_name))
        return found if found is not None and _asks(found) else None

    def _last(self, volume: PersistentVolume, source: SourceVolume) -> Used | None:
        """By records alone, which belong to administrators."""
        ref = volume.spec.claim_ref
        sizes = (
            Used(bytes=size, at=record.state.cut, by=LAST_SNAPSHOT)
            for lookup in self._lookups
            for snapshot in (islice(lookup.of_claim(ref.namespace, ref.name), _NEWEST) if ref is not None else ())
            if (record := lookup.record(lookup.record_name(snapshot))) is not None and refers_to(record, snapshot)
            if (record.driver, record.volume) == (source.driver, source.volume.handle) and not record.imported
            if record.state.cut is not None and (size := _told(record)) is not None
        )
        return max(sizes, key=lambda one: one.at, default=None)

    async def _write(self, volume: PersistentVolume, used: Used | None) -> None:
        change = {"metadata": {"annotations": {USED: written(used) if used is not None else None}}}
        try:
            await self._client.patch(PERSISTENT_VOLUMES, volume.metadata.name, merge=change, uid=volume.metadata.uid)
        except (NotFound, Conflict):
            return  # it is gone: another one of the name is looked at by itself


def _told(record: Record) -> int | None:
    """The blocks with data, where the driver tells of them; else how large a volume made from the snapshot has to be."""
    text = record.meta.annotations.get(SIZE, "")
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST:
        return int(text)
    return record.state.restore_size


def _asks(found: StorageClass) -> bool:
    return found.metadata.annotations.get(ESTIMATE_BY) == LAST_SNAPSHOT


def _facts(volume: PersistentVolume) -> tuple[object, ...]:
    return volume.metadata.uid, volume.spec, read_used(volume.metadata)


def _volume_matters(old: PersistentVolume | None, new: PersistentVolume | None) -> bool:
    return old is None or (new is not None and _facts(old) != _facts(new))


def _class_matters(old: StorageClass | None, new: StorageClass | None) -> bool:
    return (old is not None and _asks(old)) != (new is not None and _asks(new))


def _volume_of(lookup: SnapshotLookup) -> Any:
    def keys(obj: Any) -> Iterable[Key]:
        name = lookup.dialect.read_record(obj).volume_name
        return (Key("", name),) if name else ()

    return keys


def _is_sized(lookup: SnapshotLookup) -> Any:
    def sized(old: Any, new: Any) -> bool:
        read = lookup.dialect.read_record
        return new is not None and (old is None or _told(read(old)) != _told(read(new)))

    return sized
