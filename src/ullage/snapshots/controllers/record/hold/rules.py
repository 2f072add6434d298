"""Which records hold which Snapshot of Longhorn, and what of its holds a Volume keeps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.handles import DRIVER, SnapshotHandle
from ullage.engines.holds import Hold
from ullage.kube.objects import is_deleting
from ullage.snapshots.binding import hold_of, needs_data
from ullage.snapshots.model import Record, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldFacts:
    """A record of Longhorn's driver, the kind that it has, and the snapshot that it names, where there is one."""

    record: Record
    kind: str
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The holds of one volume, by the record's uid: on each Snapshot by its name, and on the Volume itself."""

    snapshots: Mapping[str, Mapping[str, Hold]] = field(default_factory=dict)
    volume: Mapping[str, Hold] = field(default_factory=dict)


def engine_snapshot_of(record: Record) -> SnapshotHandle | None:
    """The Snapshot that a record stands for, also while it is only being asked for. None: it stands for none."""
    if record.driver != DRIVER:
        return None
    if record.handle:
        return SnapshotHandle.parse(record.handle)
    return SnapshotHandle(record.volume, record.backend_name) if record.begun and record.volume else None


def wanted(records: Iterable[HoldFacts], snapshots: Mapping[str, EngineSnapshot]) -> Wanted:
    """What the records of one volume hold. `snapshots` are the Snapshots that are there, by name.

    A Volume is held for a snapshot that it has, or is about to take: not for one that is lost.
    """
    found: dict[str, dict[str, Hold]] = {}
    volume: dict[str, Hold] = {}
    for facts in records:
        handle = engine_snapshot_of(facts.record)
        if handle is None or not needs_data(facts.record, facts.snapshot):
            continue
        hold = hold_of(facts.record, kind=facts.kind)
        there = snapshots.get(handle.snapshot)
        if there is not None and there.spec.volume == handle.volume and not is_deleting(there.metadata):
            found.setdefault(handle.snapshot, {})[hold.id] = hold
            volume[hold.id] = hold
        elif there is None and not facts.record.handle and not is_deleting(facts.record.meta):
            volume[hold.id] = hold
    return Wanted(found, volume)
