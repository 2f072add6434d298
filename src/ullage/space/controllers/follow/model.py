"""What is seen of the snapshots of a storage system, and of the objects that may pay for each. Pure.

A *cut* is one snapshot as the storage system has it. Several objects may stand for it: the VolumeSnapshot that asked for it and
its record, others that import it, the engine Snapshot, and the backup that the VolumeSnapshot is a member of. One of them pays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ullage.engines.api import Engine, Snapshot, to_bytes
from ullage.engines.chain import HEAD, Entry
from ullage.engines.merging import Merges, merges_of
from ullage.engines.model import active_engine, entries_of, has_failed, is_purging
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import NOTHING, Takings
from ullage.ledger.charging.methods import ALLOCATED_BLOCKS, ENGINE_SIZE, MEASURED, RESTORE_SIZE, UNKNOWN
from ullage.ledger.charging.stamps import ESTIMATED_BY, Stamp
from ullage.names import is_subdomain
from ullage.snapshots.model import SIZE, Policy, Record
from ullage.snapshots.settings import HOSTPATH
from ullage.space.estimates import Estimate

NOT_KNOWN: Final = Estimate(0, UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """An object that has a stamp, or may get one."""

    kind: Kind[Any]
    meta: Meta
    stamp: Stamp | None  # None: there is none, or it cannot be read
    namespace: str  # whose ledger it is in; empty: it is in none yet

    @property
    def uid(self) -> str:
        return self.meta.uid

    @property
    def method(self) -> str:
        """How what it takes was found."""
        return self.meta.annotations.get(ESTIMATED_BY, "")

    @property
    def going(self) -> bool:
        return self.meta.deletion_timestamp is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSide:
    """A VolumeSnapshot."""

    bearer: Bearer
    cut: bool  # by its own status: only then it is written past the limit
    told: bool = True  # its own status says that it is ready, which anybody may have written
    claim: str = ""
    backup: str = ""  # the uid of the backup that it is a member of, which is there
    estimate: Estimate = NOT_KNOWN  # what it would be stamped with today, for one that nobody has stamped


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSide:
    """A VolumeSnapshotContent or VolumeSnapshotData."""

    bearer: Bearer
    policy: Policy
    namespace: str  # of the VolumeSnapshot that it was made for, and that is to pay when it does
    cut: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSide:
    """A Snapshot of Longhorn's."""

    bearer: Bearer
    cut: bool
    namespace: str  # of the claim behind its volume; empty: there is none
    estimate: Estimate = NOT_KNOWN  # what it would be stamped with today, for one that nobody has stamped


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A VolumeSnapshot and its record, as far as they are there. What is absent is known to be."""

    snapshot: SnapshotSide | None = None
    record: RecordSide | None = None
    imported: bool = False  # it did not ask for the cut, which was there already
    shared: bool = False  # an administrator has given it to another namespace: that one pays for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One snapshot of a storage system."""

    pairs: tuple[Pair, ...] = ()  # the oldest first
    engine: EngineSide | None = None
    size: int | None = None  # what it is charged with, in bytes; None: not known, so what was booked stays
    by: str = ""  # how that is known
    gone: bool = False  # nothing of it counts any more, or ever did
    vms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by namespace: whose accounts the claim's are


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSide:
    """A VirtualMachineBackup."""

    bearer: Bearer
    plan: Mapping[str, int] = field(default_factory=dict)  # bytes by claim, as booked
    settled: bool = False  # all members are cut, or no more will be made: it is ready, has failed, or goes


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A stamp that is to be written."""

    bearer: Bearer
    stamp: Stamp
    namespace: str = ""  # to be charged, where the object has to say so
    by: str = ""  # how the amount was found; empty: as it says already
    arrived: bool = False  # its cut is there: it gives back its place among those that wait for their sources


# How many bytes a snapshot of a storage system without engines takes, by what stands on its record.


_LONGEST: Final = 20  # digits


def size_of(record: Record) -> Estimate | None:
    """What was measured after the cut; else as large as a volume made from it has to be. None: nothing tells."""
    text = record.meta.annotations.get(SIZE, "")
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST:
        return Estimate(int(text), MEASURED if record.driver == HOSTPATH else ALLOCATED_BLOCKS)
    size = record.state.restore_size
    return None if size is None else Estimate(size, RESTORE_SIZE)


# What is left of a snapshot of an engine, and what it is charged with, by what its Engine was last seen to say.


@dataclass(frozen=True, slots=True)
class View:
    """The snapshots of a volume, as the engine that serves it was last seen to have them."""

    entries: Mapping[str, Entry]
    merges: Merges


def view_of(engines: Iterable[Engine]) -> View | None:
    """None: nothing is known, since no engine was ever asked. While a volume migrates it has two: the active one counts."""
    engine = active_engine(engines)
    if engine is None or not engine.status.snapshots:
        return None
    entries = entries_of(engine)
    size = to_bytes(engine.spec.volume_size)
    return View(entries, merges_of(entries, volume_size=size, purging=is_purging(engine)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the objects say of one snapshot of a volume."""

    name: str
    cut: Cut  # with everybody who stands for it
    snapshot: Snapshot | None = None
    was_cut: bool = False  # somebody's status says that it was taken


def measured(traces: Iterable[Trace], view: View | None, *, has_volume: bool) -> list[Cut]:
    """The cuts of a volume, with what each is charged with. `has_volume`: the volume is there, and is to stay."""
    listed = list(traces)
    found = [_measured(one, view, has_volume=has_volume) for one in listed]
    if view is None or not _unshown(view, {one.name for one in listed}):
        return found
    return [replace(cut, gone=False, size=None) if cut.gone else cut for cut in found]


def _unshown(view: View, shown: set[str]) -> bool:
    """Whether there is a snapshot that no object stands for yet, as one that the system took a moment ago. What was merged may
    be in it: until it has somebody who pays, whoever has paid goes on."""
    return any(
        name not in shown and not one.removed and is_subdomain(name) for name, one in view.entries.items() if name != HEAD
    )


def _measured(trace: Trace, view: View | None, *, has_volume: bool) -> Cut:
    snapshot, cut = trace.snapshot, trace.cut
    going = snapshot is not None and is_deleting(snapshot.metadata)
    if not has_volume:
        return replace(cut, gone=going or snapshot is None)  # its data go, or are gone: nothing is merged any more
    entry = view.entries.get(trace.name) if view is not None else None
    if view is not None and entry is not None:
        return replace(cut, gone=True) if entry.removed else _sized(cut, view.merges.sizes[trace.name])
    if snapshot is not None and (has_failed(snapshot.status) or (going and _never_asked_for(snapshot))):
        return replace(cut, gone=True)
    if view is not None:
        return replace(cut, gone=going or (snapshot is None and trace.was_cut))
    return cut


def _sized(cut: Cut, size: int) -> Cut:
    return replace(cut, size=size, by=ENGINE_SIZE)


def _never_asked_for(snapshot: Snapshot) -> bool:
    status = snapshot.status
    return snapshot.spec.create_snapshot and not status.requested_time and not status.creation_time


# In which order stamps are written, so that at no moment less is booked than is there.


@dataclass(frozen=True, slots=True)
class Plan:
    """`raises` may be written at once, in any order; `lowers` when all of them have been."""

    raises: tuple[Change, ...] = ()
    lowers: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.raises or self.lowers)


def ordered(changes: Iterable[Change]) -> Plan:
    """A change that takes more of one account and less of another is written in two steps, unless nobody here takes anything
    of the other account any more: then nothing can have moved there."""
    found = list(changes)
    still_used = {cell for change in found for cell in change.stamp.takes}
    raises: list[Change] = []
    lowers: list[Change] = []
    for change in found:
        before, after = _before(change), change.stamp.takes
        if after <= before and _in_ledger(change):
            lowers.append(change)
        elif before <= after or not still_used.intersection(before.beyond(after)):
            raises.append(change)
        else:
            raises.append(replace(change, stamp=_both(change)))
            lowers.append(change)
    return Plan(tuple(raises), tuple(lowers))


def _in_ledger(change: Change) -> bool:
    """Whether it is counted where it is to be: otherwise all of it is new there, and what cannot be read is in no sum."""
    bearer = change.bearer
    return bearer.stamp is not None and (not change.namespace or change.namespace == bearer.namespace)


def _before(change: Change) -> Takings:
    stamp = change.bearer.stamp
    return stamp.takes if stamp is not None and _in_ledger(change) else NOTHING


def _both(change: Change) -> Stamp:
    before = change.bearer.stamp or change.stamp
    return Stamp({**change.stamp.cells, **(before.takes | change.stamp.takes).cells})
