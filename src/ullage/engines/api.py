"""The kinds of `longhorn.io/v1beta2` that engine snapshots are about: Snapshot, Volume and Engine.

They belong to Longhorn: on a cluster that runs it they are there already, on one machine we bring them along. Only what
decisions need is decoded, so that 30,000 snapshots fit into little memory; what is not named here is kept and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from ullage.engines.handles import ALIGNMENT, FORM
from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value
from ullage.kube.objects import Conditions
from ullage.names import LABEL_LIMIT

# What the API server itself refuses of Snapshots and Volumes, as CEL in their definitions: it needs no process of ours.
# So an object can be let go of while the webhook is away, and what was asked for stands nevertheless. Only where we
# bring the definitions along: where Longhorn runs they are its own. What takes a look at other objects to be judged is
# left to the webhook.


FEWEST: Final = 2  # snapshots that a limit allows at least
MOST: Final = 250  # and at most
MOST_REPLICAS: Final = 20
MOST_TICKETS: Final = 1000  # the server wants to know what a rule may cost

_SPEC: Final = Rule("has(self.spec)", "spec is required")


def _spec(rule: str, message: str, field: str) -> Rule:
    return Rule(rule, f"{field}{message}", path="spec", field_path=f".{field}")


def _given(field: str, otherwise: str, *, of: str = "self") -> str:
    """A field, or what its absence means."""
    return f"(has({of}.{field}) ? {of}.{field} : {otherwise})"


def _unchanged(field: str, why: str) -> Rule:
    rule = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return _spec(rule, f" cannot be changed{why}", field)


_ANOTHER: Final = "; delete the snapshot and create another"

SNAPSHOT_RULES: Final = (
    _SPEC,
    *(_unchanged(field, _ANOTHER) for field in ("volume", "createSnapshot", "labels")),
)

VOLUME_RULES: Final = (
    _SPEC,
    Rule(
        f"size(self.metadata.name) <= {LABEL_LIMIT}",
        f"metadata.name has {LABEL_LIMIT} characters at most: its snapshots have it as a label",
    ),
    _spec(
        rf"has(self.size) && self.size.matches('^[1-9][0-9]{{0,17}}$') && int(self.size) % {ALIGNMENT} == 0",
        f": a number of bytes, a multiple of {ALIGNMENT} (2Mi), is required",
        "size",
    ),
    _spec(
        "!has(oldSelf.size) || self.size == oldSelf.size",
        " cannot be changed: volumes do not grow here; restore a snapshot of it to a larger one",
        "size",
    ),
    _spec(
        f"{_given('snapshotMaxCount', '0')} == 0 || (self.snapshotMaxCount >= {FEWEST} && self.snapshotMaxCount <= {MOST})",
        f": {FEWEST} to {MOST} are allowed, or 0, which is {MOST}",
        "snapshotMaxCount",
    ),
    _spec(
        f"{_given('snapshotMaxSize', repr(''))}.matches('^(0|[1-9][0-9]{{0,17}})?$')",
        ": a number of bytes is allowed, or 0: no limit",
        "snapshotMaxSize",
    ),
    _spec(
        f"{_given('numberOfReplicas', '0')} >= 0 && {_given('numberOfReplicas', '0')} <= {MOST_REPLICAS}",
        f": 0 to {MOST_REPLICAS} are allowed",
        "numberOfReplicas",
    ),
    _spec(
        f"{_given('dataSource', repr(''))}.matches('^(snap://[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9._]*)?$')",
        f": {FORM} is allowed",
        "dataSource",
    ),
    _spec(
        f"{_given('dataSource', repr(''))} == {_given('dataSource', repr(''), of='oldSelf')}",
        " cannot be changed: the volume has its data already, or is given it",
        "dataSource",
    ),
    Rule(
        "has(self.until) && has(self.owner) && has(self.owner.kind) && self.owner.kind != '' && "
        "(self.owner.kind != 'Snapshot' || (has(self.owner.name) && has(self.owner.uid) && self.owner.uid != ''))",
        "an attachment ticket has an end (until) and an owner: its kind, and of a Snapshot name and uid",
        path="spec.attachmentTickets[]",
    ),
)


GROUP: Final = "longhorn.io"
VERSION: Final = "v1beta2"
FINALIZER: Final = "longhorn.io"
VOLUME_LABEL: Final = "longhornvolume"
RUNNING: Final = "running"
DEFAULT_MAX_COUNT: Final = 250  # what a volume's snapshotMaxCount of 0 means

INT64: Final = msgspec.Meta(extra_json_schema={"format": "int64"})
TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
TICKETS: Final = msgspec.Meta(extra_json_schema={"maxProperties": MOST_TICKETS})

# --- Snapshot --------------------------------------------------------------------------------------------------------


class SnapshotSpec(Value):
    """What is asked for. It cannot be changed."""

    volume: str = ""
    """The Volume that the snapshot belongs to, in the same namespace. It must be set."""
    create_snapshot: bool = False
    """Whether the engine is to take a new snapshot under this object's name. For what a person creates, absent means true.
    Objects with false stand for snapshots that the engine has already; only the system creates those."""
    labels: Mapping[str, str] | None = None
    """Labels that the snapshot gets inside the engine. Neither keys nor values may contain '='."""


class SnapshotStatus(Value):
    """What the engine says of the snapshot. Users read this and never write it."""

    parent: str = ""
    """The snapshot that this one was taken after. Empty: it is the first of its volume."""
    children: Mapping[str, bool] | None = None
    """What was taken, or is being written, after this one. `volume-head` is what the volume writes to now."""
    mark_removed: bool = False
    """Whether the engine has marked it for removal: it goes when its data has been merged into its child."""
    user_created: bool = False
    """Whether somebody asked for it. The others were made by the system, by a rebuild for example."""
    requested_time: str = ""
    """When the engine was first asked for it. It is written before the engine is asked: once it is set, the engine may have
    the snapshot."""
    creation_time: str = ""
    """The moment whose data it has, as the engine says."""
    size: Annotated[int, INT64] | UnsetType = UNSET
    """The bytes that it holds beyond its parent. It grows when a removed parent is merged into it."""
    labels: Mapping[str, str] | None = None
    """Its labels inside the engine."""
    owner_id: str = msgspec.field(default="", name="ownerID")
    """Longhorn's own: the node that looks after it."""
    error: str = ""
    """What is wrong, or what it waits for. It is cleared once all is well."""
    restore_size: Annotated[int, INT64] | UnsetType = UNSET
    """The size in bytes of a volume that is made from it."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether a volume can be made from it, and the volume be reverted to it."""
    checksum: str = ""
    """Longhorn's own: a checksum of its data."""
    checksum_calculated_at: str = ""
    """Longhorn's own: when the checksum was calculated."""
    conditions: Conditions = ()
    """What is known beyond readyToUse. `Failed`: it was not taken, and is not tried again; delete it and create another.
    `LogicallyRemoved`: it is deleted, but the engine cannot merge it away yet; the reason says what it waits for."""


class Snapshot(Object):
    """A snapshot inside a volume engine. Creating one takes a snapshot of a volume, deleting one removes it. Every snapshot
    that an engine has is an object of this kind, whoever took it."""

    spec: SnapshotSpec = SnapshotSpec()
    """What is asked for. It cannot be changed."""
    status: SnapshotStatus = SnapshotStatus()
    """What the engine says of the snapshot."""


# --- Volume ----------------------------------------------------------------------------------------------------------


class TicketOwner(Value):
    """Who needs the volume attached."""

    kind: str = ""
    """The kind of the object: Snapshot."""
    name: str = ""
    """Its name; it is in the volume's namespace."""
    uid: str = ""
    """Its uid. A later object of the same name has no claim to the ticket."""


class AttachmentTicket(Value):
    """Ullage's own. A demand that the volume be attached, by somebody who needs its engine for a while."""

    owner: TicketOwner = TicketOwner()
    """Who needs the volume attached. The ticket is taken away when that object is gone, or is done."""
    since: Annotated[str, TIME] = ""
    """When the demand was made, or last renewed."""
    until: Annotated[str, TIME] = ""
    """From this moment on it counts for nothing, whoever may have forgotten it."""
    disable_frontend: bool = False
    """Whether the volume is to be attached without a frontend: while there is such a ticket nobody reads or writes it, and it
    can be reverted to a snapshot."""


class VolumeSpec(Value):
    """What is wanted of the volume."""

    size: str = ""
    """The size in bytes."""
    number_of_replicas: int = 0
    """How many copies of the data are kept."""
    snapshot_max_count: int = 0
    """How many snapshots it may have, 2 to 250. 0: 250."""
    snapshot_max_size: str = ""
    """How many bytes its snapshots may take together, what is being written now included. 0: no limit."""
    node_id: str = msgspec.field(default="", name="nodeID")
    """The node that it is to be attached to. Empty: none, unless there is an attachment ticket."""
    frontend: str = ""
    """How the volume is offered on its node: blockdev, iscsi, or empty."""
    data_source: str = ""
    """The snapshot whose data a new volume begins with: snap://VOLUME/SNAPSHOT. It cannot be changed."""
    attachment_tickets: Annotated[Mapping[str, AttachmentTicket], TICKETS] | None = None
    """Ullage's own. Demands that the volume be attached, by id. The volume stays attached while there is one whose `until`
    has not passed."""


class CloneStatus(Value):
    """How far a volume with a `dataSource` is with the data from there."""

    source_volume: str = ""
    """The volume that the data comes from."""
    snapshot: str = ""
    """Its snapshot."""
    state: str = ""
    """initiated, completed or failed; empty before the first time."""
    message: str = ""
    """Ullage's own: why it failed, or what it waits for."""


class VolumeStatus(Value):
    """What is known of the volume."""

    state: str = ""
    """creating, attached, detached, attaching, detaching or deleting."""
    current_node_id: str = msgspec.field(default="", name="currentNodeID")
    """The node that it is attached to."""
    owner_id: str = msgspec.field(default="", name="ownerID")
    """Longhorn's own: the node that looks after it."""
    robustness: str = ""
    """healthy, degraded, faulted or unknown."""
    actual_size: Annotated[int, INT64] = 0
    """The bytes that it takes with all its snapshots."""
    clone_status: CloneStatus | None = None
    """How far it is with the data of its `dataSource`."""
    conditions: Conditions = ()
    """Ullage's own are `SnapshotsShown`: whether every snapshot of the engine has an object, and if not, which ones and why;
    and `SnapshotLimitsSet`: whether the engine has taken the limits of this volume, and if not, which ones it has and why."""


class Volume(Object):
    """A volume of Longhorn, or of the embedded engine. A volume that is deleted takes its snapshots with it."""

    spec: VolumeSpec = VolumeSpec()
    """What is wanted of the volume."""
    status: VolumeStatus = VolumeStatus()
    """What is known of the volume."""


# --- Engine ----------------------------------------------------------------------------------------------------------


class SnapshotInfo(Value):
    """A snapshot, or the head under the name volume-head, as the engine has it."""

    name: str = ""
    """Its name."""
    parent: str = ""
    """The one that it was taken after. Empty: none."""
    children: Mapping[str, bool] | None = None
    """Those that were taken after it."""
    removed: bool = False
    """Whether it is marked for removal."""
    usercreated: bool = False
    """Whether somebody asked for it."""
    created: str = ""
    """When it was taken."""
    size: str = ""
    """The bytes that it holds beyond its parent."""
    mergedsize: str = ""
    """The bytes that it will hold when removed snapshots right below are merged into it. Empty: the engine does not tell."""
    labels: Mapping[str, str] | None = None
    """Its labels."""


class PurgeStatus(Value):
    """How far one replica is with merging removed snapshots away, or how the last time ended."""

    error: str = ""
    """What went wrong."""
    is_purging: bool = False
    """Whether it is at it now."""
    progress: int = 0
    """Percent."""
    state: str = ""
    """in_progress, complete or error; empty before the first time."""


class EngineSpec(Value):
    """What is wanted of the engine."""

    volume_name: str = ""
    """The Volume that it serves."""
    volume_size: str = ""
    """The size of the volume in bytes."""
    node_id: str = msgspec.field(default="", name="nodeID")
    """The node that it is to run on."""
    desire_state: str = ""
    """running or stopped."""
    active: bool = False
    """Whether it is the one that serves the volume. While a volume migrates it has two engines."""


class EngineStatus(Value):
    """What the engine says."""

    current_state: str = ""
    """running, stopped, starting, stopping, error or unknown."""
    snapshots: Mapping[str, SnapshotInfo] | None = None
    """All its snapshots by name, and volume-head. Head growth shows with a delay of up to 30 s."""
    snapshots_error: str = ""
    """Why the snapshots could not be listed; what is shown is what was seen last."""
    purge_status: Mapping[str, PurgeStatus] | None = None
    """By replica: how far the merging of removed snapshots is."""
    snapshot_max_count: int = 0
    """How many snapshots the engine allows."""
    snapshot_max_size: str = ""
    """How many bytes of snapshots the engine allows. 0: no limit."""
    current_size: str = ""
    """The size in bytes that the engine serves now."""
    endpoint: str = ""
    """Where the volume is offered."""
    ip: str = ""
    """Where a real engine listens: the address of its instance. Embedded engines have none."""
    port: int = 0
    """And its port."""


class Engine(Object):
    """The process that serves a volume while it is attached, and what it says of the volume's snapshots."""

    spec: EngineSpec = EngineSpec()
    """What is wanted of the engine."""
    status: EngineStatus = EngineStatus()
    """What the engine says."""


# --- where they live -------------------------------------------------------------------------------------------------

ENGINE_SNAPSHOTS: Final = Kind(
    GROUP,
    VERSION,
    "Snapshot",
    "snapshots",
    Snapshot,
    whole=False,
    prunes=True,
    short_names=("lhsnap",),
    rules=SNAPSHOT_RULES,
    columns=(
        Column("Volume", ".spec.volume", description="The volume that it belongs to."),
        Column("Created", ".status.creationTime", type="date", description="The moment whose data it has."),
        Column("Ready", ".status.readyToUse", type="boolean", description="Whether a volume can be made from it."),
        Column("Size", ".status.size", type="integer", description="The bytes that it holds beyond its parent."),
        Column("Restore-Size", ".status.restoreSize", type="integer", description="The bytes of a volume made from it."),
        AGE,
        Column("Parent", ".status.parent", description="The snapshot that it was taken after.", priority=1),
        Column("Removed", ".status.markRemoved", type="boolean", description="Marked for removal.", priority=1),
        Column("User", ".status.userCreated", type="boolean", description="Whether somebody asked for it.", priority=1),
        Column("Error", ".status.error", description="What is wrong, or what it waits for.", priority=1),
    ),
)

VOLUMES: Final = Kind(
    GROUP,
    VERSION,
    "Volume",
    "volumes",
    Volume,
    whole=False,
    short_names=("lhv",),
    rules=VOLUME_RULES,
    columns=(
        Column("State", ".status.state", description="Whether it is attached."),
        Column("Robustness", ".status.robustness", description="Whether all its copies are there."),
        Column("Size", ".spec.size", description="Its size in bytes."),
        Column("Node", ".status.currentNodeID", description="The node that it is attached to."),
        AGE,
        Column("Actual-Size", ".status.actualSize", type="integer", description="The bytes that it takes.", priority=1),
    ),
)

ENGINES: Final = Kind(
    GROUP,
    VERSION,
    "Engine",
    "engines",
    Engine,
    whole=False,
    short_names=("lhe",),
    columns=(
        Column("Volume", ".spec.volumeName", description="The volume that it serves."),
        Column("State", ".status.currentState", description="Whether it runs."),
        Column("Node", ".spec.nodeID", description="The node that it runs on."),
        AGE,
    ),
)
KINDS: Final[tuple[Kind[Any], ...]] = (ENGINE_SNAPSHOTS, VOLUMES, ENGINES)


def to_bytes(amount: str) -> int:
    """An amount that Longhorn writes as a string of digits; 0 where it is absent or no number."""
    return int(amount) if amount.isascii() and amount.isdigit() else 0
