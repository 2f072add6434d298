"""Snapshots in the terms that decisions are made in, whatever API they came through.

Both APIs have the same two objects. A *snapshot* is what a user asks for: it lives in the user's namespace and names a claim
(VolumeSnapshot in both). A *record* is what came of it: it belongs to administrators and names the storage system's own
snapshot (VolumeSnapshotContent, VolumeSnapshotData). They are bound when each names the other, by name, namespace and uid.

A `Dialect` turns the objects of one API into these and says how a new state is written there. Rules see nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import Json, name_for
from ullage.ledger.charging import booking
from ullage.names import LABEL_LIMIT
from ullage.snapshots.backends.base import Parameters

Policy = Literal["Delete", "Retain"]

# On a record whose creation may have begun: until the cut is known, its deletion has to find out first.
CREATING: Final = "ullage.io/creating"
ABOUT_TO: Final = "true"  # the driver is about to be asked, or was
MAY_BE: Final = "maybe"  # it was, and nobody knows what came of it
# On a record, a GA snapshot and a claim: how far a copy is that takes long. It goes when that is done.
PROGRESS: Final = "ullage.io/progress"
# On a record: the node that its source volume can only be reached from; the source volume's handle, where the API has no field.
NODE: Final = "ullage.io/node"
SOURCE: Final = "ullage.io/source-volume"
# On a snapshot or a claim that we hold: the driver that we do it for. Finalizers have the same names for every snapshotter, so
# this alone tells that they are ours once record, claim and class are gone. Whoever may edit the object may write it.
DRIVER: Final = "ullage.io/driver"
# A finalizer on a snapshot whose record is of a driver of ours. People cannot take it off (`guard.py`).
GUARD: Final = "ullage.io/guard"
# On a snapshot that is to be cut together with others: `hold` until all of them are ready, then `go@` and the time of the
# estimate that was booked. Ullage alone writes it.
CUT: Final = "ullage.io/cut"
HOLD: Final = "hold"
GO: Final = "go@"
BOOKED: Final = "booked@"  # of one that is cut alone, where the process that calls its driver may not book: the same
NO: Final = "no@"  # the estimate of that time does not fit: then a space, and all its numbers
# On a snapshot that is cut alone, and waits for commands that are run in pods before: it waits at the same gate, and pays for
# itself. Ullage alone writes it.
HOOKED: Final = "ullage.io/cut-hooks"
WAITS: Final = "true"
# On a record: what a snapshot of the volume would take, measured for whoever books it (`gate.py`); what it takes, in bytes.
ESTIMATE: Final = "ullage.io/estimate"
SIZE: Final = "ullage.io/size"
ASK_AGAIN: Final = ""  # in place of the size, which is not known yet
# A GA snapshot may be a member of a VolumeGroupSnapshot, which owns it and decides when it is begun and goes. As long as
# the finalizer is there, a member that was deleted alone stays, with its data. The annotation is on the records of those that a
# driver has cut in one call: it names the driver's group snapshot.
GROUP_KIND: Final = "VolumeGroupSnapshot"
GROUP_API: Final = "groupsnapshot.storage.k8s.io"
IN_GROUP: Final = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection"
GROUP_HANDLE: Final = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"
# On every snapshot: what it was taken of, so that a label selector finds it. A name too long for a label is shortened.
CLAIM_LABEL: Final = "ullage.io/claim"
VOLUME_LABEL: Final = "ullage.io/volume"
# On a snapshot, by whoever may edit it: with the value "true", no retention and no limit ever deletes it.
PROTECTED: Final = "ullage.io/protected"
# On a snapshot: NAME/UID of the SnapshotRestore that reads it. Until that is done, no retention and no limit deletes it.
READ_BY: Final = "ullage.io/read-by-restore"
# On a record, which administrators alone write: the share that gives its snapshot to another namespace. That one pays for it.
SHARED_BY: Final = "ullage.io/shared-by"


def labels_for(claim: str, volume: str) -> dict[str, str]:
    """A name that is too long for a label is cut, and stays unique."""
    known = {CLAIM_LABEL: claim, VOLUME_LABEL: volume}
    return {key: label_value(name) for key, name in known.items() if name}


def label_value(name: str) -> str:
    return name if len(name) <= LABEL_LIMIT else name_for("x", name, limit=LABEL_LIMIT)


def group_of(snapshot: Meta) -> str:
    """The name of the VolumeGroupSnapshot that a snapshot is a member of; empty: of none. The version of the owner's API is
    the writer's choice."""
    owners = snapshot.owner_references
    return next((one.name for one in owners if one.kind == GROUP_KIND and one.api_version.startswith(f"{GROUP_API}/")), "")


# The reason of a problem: the storage system had the snapshot, and does not have it any more.
LOST: Final = "SnapshotLost"

S = TypeVar("S", bound=Object)
R = TypeVar("R", bound=Object)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, for a status: a word for programs and a sentence for people."""

    reason: str
    message: str


# Why a snapshot is not there yet, where the storage system tells how far it is.
COPYING: Final = "Copying"
# Why it is not taken: it would take more than its namespace, or its virtual machine, may have.
NO_ROOM: Final = booking.NO_ROOM
# Reasons on records: the driver said that nothing can be done; it may be able to later; it could not even be asked.
DRIVER_ERROR: Final = "DriverError"
DRIVER_RETRYING: Final = "DriverRetrying"
NOT_ASKED: Final = "NotAsked"
ASKED_AGAIN: Final = frozenset({DRIVER_RETRYING, NOT_ASKED})
# Reasons on snapshots that may pass by themselves: such a one is still in the making. With any other it has failed. Those that
# other snapshotters write have no reason: whatever they say, they try again.
PASSING: Final = frozenset({"", *ASKED_AGAIN, "ClaimNotBound", "VolumeNotFound"})


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a status says, of a snapshot or of a record."""

    record: str = ""  # of a snapshot: the record that it is bound to
    handle: str = ""  # of a record: the storage system's snapshot
    cut: datetime | None = None  # the moment whose data it has
    ready: bool = False
    restore_size: int | None = None  # bytes
    problem: Problem | None = None
    waiting: Problem | None = None  # not an error: what it waits for

    @property
    def lost(self) -> bool:
        return self.problem is not None and self.problem.reason == LOST


@dataclass(frozen=True, slots=True)
class Ref:
    """The snapshot that a record is for. Without a uid: not bound yet (a record that was made by hand)."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a user asked for. Exactly one of `claim` and `imported_record` is set, by the API's own validation."""

    meta: Meta
    claim: str = ""  # the claim whose volume is to be snapshotted
    imported_record: str = ""  # or the record that stands for a snapshot which is there already
    class_name: str | None = None  # VolumeSnapshotClass or StorageClass; None: a default, "" the same
    state: State = State()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What came of it."""

    meta: Meta
    ref: Ref
    driver: str
    volume: str = ""  # the handle of the source volume; empty for an import
    volume_name: str = ""  # the PersistentVolume's name, where it is known
    volume_mode: str = ""  # Filesystem or Block; empty: not known
    imported: str = ""  # the handle that an administrator wrote down; empty for what we make
    policy: Policy = "Delete"
    class_name: str = ""
    secret: Ref | None = None  # what deletion needs, written down at creation
    node: str = ""  # the only node that the source volume can be reached from
    state: State = State()

    @property
    def handle(self) -> str:
        return self.state.handle or self.imported

    @property
    def lost(self) -> bool:
        """Whether the storage system has not its snapshot any more, as an audit found."""
        return self.state.lost

    @property
    def backend_name(self) -> str:
        """What the storage system's snapshot is called, whether it is there or not."""
        return f"snapshot-{self.ref.uid}"

    @property
    def cut_in_group(self) -> bool:
        """Whether its driver has cut it together with others, in one call: it has no name of its own to be asked for by."""
        return GROUP_HANDLE in self.meta.annotations

    @property
    def progress(self) -> str:
        """How far the storage system is, where it tells."""
        return "" if self.handle else self.meta.annotations.get(PROGRESS, "")

    @property
    def is_cut(self) -> bool:
        """Whether the storage system has it, for all that is known: whoever pays for it pays for what is there."""
        return bool(self.handle or self.state.cut)

    @property
    def begun(self) -> bool:
        """Whether the storage system may have been asked to create it, and no outcome is known."""
        return not self.handle and self.marked

    @property
    def marked(self) -> bool:
        """Whether it has a mark that says so. Once there is a handle, that has served."""
        return any(mark in self.meta.annotations for mark in MARKS)


# Ours, and that of the GA snapshotter for the same thing.
MARKS: Final = (CREATING, "snapshot.storage.kubernetes.io/volumesnapshot-being-created")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotClass:
    """How snapshots of a driver are taken: a VolumeSnapshotClass, or the part of a StorageClass that says so."""

    name: str
    driver: str
    policy: Policy = "Delete"
    parameters: Parameters = field(default_factory=dict)
    is_default: bool = False
    problem: Problem | None = None  # it cannot be used: what is wrong with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be written to an object: merge patches, in this order, each on condition that the object is still the one
    that was looked at. An absent one is not written."""

    main: Json | None = None
    status: Json | None = None

    def __bool__(self) -> bool:
        return self.main is not None or self.status is not None


class Dialect(Protocol, Generic[S, R]):
    """One of the two APIs. All of it is pure."""

    @property
    def name(self) -> str:
        """`ga` or `prototype`."""

    @property
    def snapshots(self) -> Kind[S]: ...

    @property
    def records(self) -> Kind[R]: ...

    @property
    def classes(self) -> Kind[Any]:
        """The kind that `snapshot_class` reads."""

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Those that hold a snapshot while its record stands."""

    @property
    def record_finalizer(self) -> str:
        """The one that holds a record while the storage system's snapshot stands."""

    @property
    def claim_finalizer(self) -> str:
        """The one that holds a claim while a snapshot of it is being taken."""

    @property
    def defaults(self) -> bool:
        """Whether a snapshot without a class gets the driver's default class; otherwise it gets its claim's StorageClass."""

    @property
    def class_field(self) -> str:
        """The field of a snapshot's spec that its default class is written to; empty where the class is left unsaid."""

    def read_snapshot(self, obj: S) -> Snapshot: ...

    def read_record(self, obj: R) -> Record: ...

    def read_class(self, obj: Any) -> SnapshotClass:
        """Never raises: what is wrong with a class is in its `problem`."""

    def record_name(self, snapshot: Snapshot) -> str:
        """`snapcontent-<uid>`: it follows from the snapshot, so that making it twice makes one."""

    def new_record(self, record: Record) -> Json:
        """The object to create. Its `meta` has the name, annotations and labels; the finalizer is added here."""

    def snapshot_change(self, obj: S, state: State, *, now: datetime) -> Change:
        """What to write so that the snapshot says this. Empty where it does."""

    def record_change(self, obj: R, state: State, *, now: datetime) -> Change:
        """What to write so that the record says this. Empty where it does."""

    def record_binding(self, obj: R, ref: Ref, *, class_name: str = "") -> Change:
        """What to write so that a record that was made by hand is bound to this snapshot."""

    def record_class(self, obj: R, record: Record) -> Change:
        """What to write so that a record has the class, the policy and the Secret of this one."""


def is_held(snapshot: Meta, dialect: Dialect[Any, Any]) -> bool:
    """Whether somebody's finalizer holds a snapshot: one that neither its API nor Ullage puts there."""
    return not {*dialect.finalizers, GUARD}.issuperset(snapshot.finalizers)
