"""SnapshotRestore: a claim is brought back to a snapshot of it, in place; and for a while it can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from ullage.kube.kinds import AGE, AS_SET, OPEN, Column, Kind, Object, Rule, Value
from ullage.kube.objects import Conditions
from ullage.names import SUBDOMAIN_LIMIT, SUBDOMAIN_PATTERN
from ullage.snapshots.api.ga.types import GROUP as GA_GROUP
from ullage.snapshots.api.prototype.types import GROUP as PROTOTYPE_GROUP

GROUP: Final = "ullage.io"
VERSION: Final = "v1alpha1"


def _mark(**schema: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


_TIME: Final = _mark(format="date-time")
_NAME: Final = _mark(minLength=1, maxLength=SUBDOMAIN_LIMIT, pattern=SUBDOMAIN_PATTERN)
_DURATION: Final = _mark(pattern=r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$", minLength=2, maxLength=32)


class RestoreSource(Value):
    """Names a VolumeSnapshot in the same namespace."""

    api_group: Annotated[str, _mark(enum=[GA_GROUP, PROTOTYPE_GROUP])] = GA_GROUP
    """The API that the VolumeSnapshot is of: snapshot.storage.k8s.io, or volumesnapshot.external-storage.k8s.io."""
    name: Annotated[str, _NAME]
    """Its name. It must be a snapshot of the claim, and ready."""


class SnapshotRestoreSpec(Value):
    """What is asked for. The claim and the snapshot cannot be changed."""

    claim_name: Annotated[str, _NAME]
    """The claim that gets the snapshot's data, in the same namespace. No pod may use it."""
    source: RestoreSource
    """The snapshot that the data comes from."""
    undo: bool = False
    """true: the claim gets back what it had before, as long as that is kept (`undoWindow`). What was written since the restore
    is lost. Once that has begun it cannot be called off."""
    undo_window: Annotated[str, _DURATION] = "24h"
    """How long what the claim had before is kept once the restore is complete: hours, minutes and seconds, such as 24h or
    1h30m, 720h at most. It takes space until then. It may be changed; 0s gives the space back at once."""
    start_within: Annotated[str, _DURATION] = "10m"
    """How long to wait, from the creation of this object on, for pods that use the claim to be gone and the snapshot to be
    ready. After that the restore has failed, and nothing has changed: it does not begin when nobody thinks of it any more."""


class EarlierClaim(Value):
    """The claim as it was before it was made again."""

    metadata: Annotated[Mapping[str, Any], OPEN] = {}
    """Its labels, annotations and owners."""
    spec: Annotated[Mapping[str, Any], OPEN] = {}
    """Its spec."""


class SnapshotRestoreStatus(Value):
    """What came of it. Users read this and never write it. Nothing that belongs to others is ever changed because of it."""

    phase: str = ""
    """Pending: it waits for something, which the condition Complete tells. Preparing: the snapshot's data is made ready beside
    the claim's. Switching: the claim gets it. Complete. Undoing, Undone. Failed: it was given up, and nothing has changed."""
    method: str = ""
    """How it is done. Swap: directories change places. Revert: the volume goes back to the snapshot, inside its engine.
    Recreate: a new volume is made, and the claim is made again with it."""
    claim_uid: str = msgspec.field(default="", name="claimUID")
    """The uid of the claim that it was begun for; after it was made again, that of the new one."""
    snapshot_uid: str = msgspec.field(default="", name="snapshotUID")
    """The uid of the snapshot."""
    earlier_claim: EarlierClaim | None = None
    """The claim as it was, where it has to be made again."""
    progress: str = ""
    """How far it is, in words, while something takes long."""
    pods: Annotated[tuple[str, ...], AS_SET] = ()
    """Pods that were found to use the claim right after its data had changed: name and uid. Each should be restarted; what the
    claim had before is kept until they are gone."""
    completion_time: Annotated[str, _TIME] = ""
    """When the claim had the snapshot's data."""
    undo_until: Annotated[str, _TIME] = ""
    """Until when it can be undone. Absent: it cannot."""
    settled: bool = False
    """Whether nothing is kept any more beside what the claim has now."""
    conditions: Conditions = ()
    """`Complete`: whether the claim has the snapshot's data, and if not, why. `Undoable`: whether what it had is kept."""


class SnapshotRestore(Object):
    """Brings a claim back to a snapshot of it, under its own name. Deleting this object ends the time in which it can be
    undone; before the claim has changed, it calls the restore off."""

    spec: SnapshotRestoreSpec
    """What is asked for."""
    status: SnapshotRestoreStatus = SnapshotRestoreStatus()
    """What came of it."""


_LONGEST: Final = "duration(self.{0}) <= duration('720h')"

SNAPSHOT_RESTORES: Final = Kind(
    GROUP,
    VERSION,
    "SnapshotRestore",
    "snapshotrestores",
    SnapshotRestore,
    short_names=("snaprestore",),
    columns=(
        Column("Claim", ".spec.claimName", description="The claim that gets the data."),
        Column("Snapshot", ".spec.source.name", description="The snapshot that it comes from."),
        Column("Phase", ".status.phase", description="How far it is."),
        Column("Undo-Until", ".status.undoUntil", description="Until when it can be undone."),
        AGE,
        Column("Method", ".status.method", description="How it is done.", priority=1),
        Column(
            "Reason",
            ".status.conditions[?(@.type=='Complete')].reason",
            description="What it waits for, or why not.",
            priority=1,
        ),
        Column("Progress", ".status.progress", description="How far it is, in words.", priority=1),
    ),
    rules=(
        Rule(
            # A name that the schema refuses today may have been stored before: it can be corrected.
            f"(self.claimName == oldSelf.claimName || !oldSelf.claimName.matches('{SUBDOMAIN_PATTERN}'))"
            f" && (self.source == oldSelf.source || !oldSelf.source.name.matches('{SUBDOMAIN_PATTERN}'))",
            "claim and snapshot of a restore cannot be changed: create another one",
            path="spec",
        ),
        Rule(
            f"!has(self.undoWindow) || {_LONGEST.format('undoWindow')}",
            "720h (30 days) at most is allowed: what the claim had before takes space until then",
            path="spec",
            field_path=".undoWindow",
        ),
        Rule(
            f"!has(self.startWithin) || {_LONGEST.format('startWithin')}",
            "720h (30 days) at most is allowed",
            path="spec",
            field_path=".startWithin",
        ),
    ),
)
