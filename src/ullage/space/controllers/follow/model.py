"""What is seen of the snapshots of a storage system, and of the objects that may pay for each. Pure.

A *cut* is one snapshot as the storage system has it. Several objects may stand for it: the VolumeSnapshot that asked for it and
its record, others that import it, the engine Snapshot, and the backup that the VolumeSnapshot is a member of. One of them pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.kube.kinds import Kind, Meta
from ullage.ledger.charging.methods import UNKNOWN
from ullage.ledger.charging.stamps import ESTIMATED_BY, Stamp
from ullage.snapshots.model import Policy
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
