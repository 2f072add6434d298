"""`resourcequotas.harvesterhci.io`: how much space the snapshots of a namespace, and of each of its virtual machines, may take.

Spec and the usage in the status are Harvester's, to the letter: tools that know that API read and write this one. What we say
beyond it (conditions, amounts for people, what is left out) stands beside them. Where Harvester has defined the kind, its
definition is taken as it is: it drops what it does not know, and the usage stays. So the webhook checks what the schema here
says, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value
from ullage.kube.objects import Conditions

NAME: Final = "default-resource-quota"  # the one in each namespace that counts
ALLOW_ZERO: Final = "ullage.io/allow-zero"  # annotation: "true" makes 0 mean none at all, where it means no limit otherwise
MOST_LIMITED: Final = 1000  # virtual machines with a limit of their own, in one namespace
MOST_SHOWN: Final = 200  # virtual machines whose usage is in the status
MOST_BYTES: Final = 2**63 - 1
READY: Final = "Ready"
WITHIN_QUOTA: Final = "WithinQuota"
USAGE_FRESH: Final = "UsageFresh"


def _mark(**schema: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


_BYTES: Final = _mark(format="int64")
_LIMIT: Final = _mark(format="int64", minimum=0)
_WHOLE: Final = _mark(**{"x-kubernetes-map-type": "atomic"})

_NONE: Final[Mapping[str, int]] = {}


class SnapshotLimit(Value):
    """The most that snapshots may take, in bytes. A new snapshot is refused when what is there, what has been admitted and
    what it asks for are together more than that; exactly full is allowed. A limit below present use takes nothing away."""

    namespace_total_snapshot_size_quota: Annotated[int, _LIMIT] | UnsetType = UNSET
    """All snapshots of the namespace together. 0 or absent: no limit. With the annotation `ullage.io/allow-zero: "true"`, 0
    that is written out means that there may be none."""
    vm_total_snapshot_size_quota: Annotated[Mapping[str, Annotated[int, _LIMIT]], _mark(maxProperties=MOST_LIMITED)] = (
        msgspec.field(default=_NONE, name="vmTotalSnapshotSizeQuota")
    )
    """The snapshots of one virtual machine together, by its name, 1,000 of them at most. 0: no limit, unless the annotation
    says otherwise. The entry of a virtual machine that was there and is deleted goes with it."""


class ResourceQuotaSpec(Value):
    """What may be used."""

    snapshot_limit: SnapshotLimit = SnapshotLimit()
    """The most that snapshots may take."""


# Both are always written: a usage of nothing is told from one that nobody has counted.
class SnapshotLimitStatus(Value, omit_defaults=False):
    """What snapshots take, in bytes, those included that were admitted and are not taken yet."""

    namespace_total_snapshot_size_usage: Annotated[int, _BYTES] = 0
    """All snapshots of the namespace together."""
    vm_total_snapshot_size_usage: Annotated[Mapping[str, Annotated[int, _BYTES]], _WHOLE, _mark(maxProperties=MOST_SHOWN)] = (
        msgspec.field(default=_NONE, name="vmTotalSnapshotSizeUsage")
    )
    """The snapshots of a virtual machine together, by its name: those that are closest to their limits, then those that use
    the most. 200 at most; `leftOut` says how many are not shown."""


class UsageForPeople(Value):
    """The namespace's snapshots in units for people: rounded, not for programs."""

    used: str = ""
    """What they take, with what is reserved: `9.5Gi`, rounded up. `unknown`: nobody has counted yet."""
    reserved: str = ""
    """What of it was admitted and is not taken yet."""
    limit: str = ""
    """The limit, rounded down. `none`: there is no limit."""
    percent: str = ""
    """What is used, in percent of the limit."""
    fullest_vm: str = msgspec.field(default="", name="fullestVM")
    """The virtual machine that is closest to its limit, and how full that is: `db 80%`."""
    may_pass_by: str = ""
    """By how much a limit may be passed, since snapshots were estimated by the last one of their volume, as their StorageClass
    asks for. Rounded up. Absent: by nothing."""


class KnownVM(Value):
    """A virtual machine that was seen while there was a limit for it."""

    uid: str
    """Its uid. When no virtual machine of that name has it any more, the limit goes."""
    limit: Annotated[int, _BYTES] = 0
    """The limit then. One that was set to another value since is about whoever has the name now."""


class ResourceQuotaStatus(Value):
    """What is used."""

    snapshot_limit_status: SnapshotLimitStatus | None = None
    """What snapshots take. Absent: nobody has counted yet."""
    observed_generation: int = 0
    """The metadata.generation that all of this was said about."""
    shown: UsageForPeople = UsageForPeople()
    """What `kubectl get` shows."""
    left_out: int = 0
    """How many virtual machines with snapshots, or with a limit, are not among `vmTotalSnapshotSizeUsage`."""
    estimates: Annotated[Mapping[str, int], _WHOLE, _mark(maxProperties=16)] = {}
    """How the sizes of these snapshots are known, with the number of snapshots for each way: `engine-head` and `engine-size`,
    `measured`, `allocated-blocks`; `capacity` and `restore-size`, which are upper bounds; `last-snapshot`, which may be less
    than they take; `unknown`, where nothing tells."""
    known_vms: Annotated[Mapping[str, KnownVM], _WHOLE, _mark(maxProperties=MOST_LIMITED)] = msgspec.field(
        default={}, name="knownVMs"
    )
    """The virtual machines that have been seen of those that have a limit: one that is deleted takes its limit along."""
    conditions: Conditions = ()
    """`Ready`: the limits are in force. `WithinQuota`: nothing is past its limit. `UsageFresh`: everything is
    counted; how good the sizes are, `estimates` tells."""


class ResourceQuota(Object):
    """How much space the snapshots of this namespace, and of each of its virtual machines, may take. There is one in a
    namespace, which is called `default-resource-quota`."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    """What may be used."""
    status: ResourceQuotaStatus = ResourceQuotaStatus()
    """What is used."""


_CONDITION: Final = '.status.conditions[?(@.type=="%s")].status'
_VM_NAME: Final = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

HARVESTER_QUOTAS: Final = Kind(
    "harvesterhci.io",
    "v1beta1",
    "ResourceQuota",
    "resourcequotas",
    ResourceQuota,
    short_names=("hrq", "hrqs"),
    columns=(
        Column("Used", ".status.shown.used", description="What the namespace's snapshots take, reserved space included."),
        Column("Limit", ".status.shown.limit", description="What they may take."),
        Column("%", ".status.shown.percent", description="Used, in percent of the limit."),
        Column("Within", _CONDITION % WITHIN_QUOTA, description="Whether no limit is passed."),
        Column("Fresh", _CONDITION % USAGE_FRESH, description="Whether everything is counted."),
        Column("Fullest-VM", ".status.shown.fullestVM", description="The VM that is closest to its own limit."),
        Column("Reserved", ".status.shown.reserved", description="What was admitted and is not taken yet.", priority=1),
        Column("Ready", _CONDITION % READY, description="Whether the limits are in force.", priority=1),
        AGE,
    ),
    rules=(
        Rule(
            f"self.metadata.name == '{NAME}'",
            f"the quota of a namespace is called {NAME}, and there is no other",
            field_path=".metadata.name",
        ),
        Rule(
            f"!has(self.vmTotalSnapshotSizeQuota) || self.vmTotalSnapshotSizeQuota.all(name, name.matches('{_VM_NAME}'))",
            "its keys are names of virtual machines: letters in lower case, digits, dashes and dots",
            path="spec.snapshotLimit",
            field_path=".vmTotalSnapshotSizeQuota",
        ),
    ),
)
