"""`snapshotlimits.ullage.io`: how many snapshots a namespace may have, and how many there may be of one claim.

It is there to limit whoever works in the namespace, so it is an administrator's to write; whoever may view the namespace sees
it.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value, listed_by
from ullage.kube.objects import Conditions

MOST_SNAPSHOTS: Final = 1_000_000  # that a limit can be: what is more is a slip of the pen
MOST_CLAIMS_SHOWN: Final = 10
READY: Final = "Ready"
WITHIN_LIMITS: Final = "WithinLimits"

_COUNT: Final = msgspec.Meta(extra_json_schema={"format": "int32", "minimum": 0, "maximum": MOST_SNAPSHOTS})
_SHOWN: Final = msgspec.Meta(extra_json_schema={"default": False})  # written out, so that `kubectl get` shows it


class SnapshotLimitSpec(Value):
    """What is allowed. One of `snapshots` and `snapshotsPerClaim` has to be set."""

    snapshots: Annotated[int, _COUNT] | UnsetType = UNSET
    """The most snapshots in the namespace: VolumeSnapshots of both APIs, members of groups and of VM backups too, and engine
    snapshots that no VolumeSnapshot stands for. Those that are being deleted count until they are gone. Absent: no limit; 0:
    none. A limit below what is there deletes nothing by itself, and admits no new one; with deleteOldest the next new one
    has as many of the oldest deleted as are too many."""
    snapshots_per_claim: Annotated[int, _COUNT] | UnsetType = UNSET
    """The most VolumeSnapshots of any one claim. Imported ones are of no claim. Absent: no limit; 0: none."""
    delete_oldest: Annotated[bool, _SHOWN] = False
    """Whether the oldest snapshot is deleted when a new one does not fit. The new one is refused until that one is gone, and
    clients try again by themselves. Never deleted: one with the annotation `ullage.io/protected: "true"`, one that a claim is
    being filled from, one that belongs to a group or a backup, one that is imported or shares its data with another, and one
    that is still being taken. It serves limits on snapshot space as well. With several SnapshotLimits in a namespace, all of
    them have to say so."""


class ClaimCount(Value):
    """How many snapshots there are of one claim."""

    claim: str
    """The claim. A name of more than 63 characters is shortened, and ends in a hash of it."""
    used: int
    """Its VolumeSnapshots, with those that were admitted and are not there yet."""


class SnapshotLimitStatus(Value):
    """What is there, and what is in force: with several SnapshotLimits in a namespace, the smallest of each."""

    observed_generation: int = 0
    """The metadata.generation that all of this was said about."""
    used: int | None = None
    """The snapshots of the namespace, with those that were admitted and are not there yet. Absent: nobody has counted yet."""
    limit: int | None = None
    """The limit of the namespace that is in force. Absent: there is none."""
    per_claim: int | None = None
    """The limit of each claim that is in force. Absent: there is none."""
    delete_oldest: bool = False
    """Whether the oldest is deleted when a new one does not fit: all SnapshotLimits of the namespace say so."""
    claims: Annotated[tuple[ClaimCount, ...], listed_by("claim")] = ()
    """The claims with the most snapshots, ten at most."""
    waiting: int | None = None
    """How many requests were told to try again and wait until the oldest is gone. Absent: none."""
    conditions: Conditions = ()
    """`Ready`: the limits are in force, and everything is counted. `WithinLimits`: no limit is passed."""


class SnapshotLimit(Object):
    """How many snapshots this namespace may have, and how many there may be of each of its claims."""

    spec: SnapshotLimitSpec
    """What is allowed."""
    status: SnapshotLimitStatus = SnapshotLimitStatus()
    """What is there."""


_CONDITION: Final = '.status.conditions[?(@.type=="%s")].status'

SNAPSHOT_LIMITS: Final = Kind(
    "ullage.io",
    "v1alpha1",
    "SnapshotLimit",
    "snapshotlimits",
    SnapshotLimit,
    short_names=("snaplimit",),
    categories=("ullage",),
    columns=(
        Column("Limit", ".spec.snapshots", type="integer", description="The most snapshots in the namespace."),
        Column("Used", ".status.used", type="integer", description="The snapshots of the namespace."),
        Column("Per-Claim", ".spec.snapshotsPerClaim", type="integer", description="The most snapshots of any one claim."),
        Column("Fullest-Claim", ".status.claims[0].claim", description="The claim with the most snapshots.", priority=1),
        Column("Its-Snapshots", ".status.claims[0].used", type="integer", description="How many it has.", priority=1),
        Column("Delete-Oldest", ".spec.deleteOldest", type="boolean", description="Whether the oldest makes room."),
        Column("Within", _CONDITION % WITHIN_LIMITS, description="Whether no limit is passed."),
        Column("Ready", _CONDITION % READY, description="Whether the limits are in force, and the count exact.", priority=1),
        AGE,
    ),
    rules=(
        Rule(
            "has(self.snapshots) || has(self.snapshotsPerClaim)",
            "set snapshots (for the namespace), snapshotsPerClaim, or both",
            path="spec",
        ),
    ),
)
