"""`resourcequotas.kubermatic.k8c.io`: how much the machines of a project may take, over all seeds and clusters.

Spec and usage are KKP's, to the letter. What we say beyond it (conditions, amounts for people, what each seed has said) stands
beside them. Where KKP has defined the kind, its definition is taken as it is: it drops what it does not know, and the usage
stays. So the webhook checks what the schema here says, too.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value, listed_by
from ullage.kube.objects import Conditions
from ullage.projects.api.amounts import GROUP, VERSION, ResourceDetails

READY: Final = "Ready"
WITHIN_QUOTA: Final = "WithinQuota"
USAGE_FRESH: Final = "UsageFresh"
REPLACING: Final = "Replacing"  # on a seed, while a replacement of machines has passed the limit
LOCAL_USAGE_FRESH: Final = "LocalUsageFresh"  # of its own: where the master is a seed both are said of one object
SUBJECT_CHANGED: Final = "Operation not permitted: updating ResourceQuota Subject is not allowed!"  # as KKP says it

_TIME: Final = msgspec.Meta(extra_json_schema={"format": "date-time"})
_NAME: Final = msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 63})


class Subject(Value, omit_defaults=False):
    """Whose quota this is. It cannot be changed: delete the quota, and create another."""

    name: Annotated[str, _NAME]
    """The project, by its id: the name of its Project object, not the one that people read."""
    kind: Literal["project"] = "project"
    """What kind of subject it is. For now there are projects only."""


class ResourceQuotaSpec(Value):
    """What may be used, and by whom."""

    subject: Subject
    """Whose quota this is. It cannot be changed."""
    quota: ResourceDetails = ResourceDetails()
    """The most that all machines of the project may take together. What is absent has no limit, and 0 allows none. A machine
    that would go past it is refused; exactly full is allowed. A quota below present use takes nothing away: it only keeps the
    project from growing."""


class SeedUsage(Value):
    """What a seed has said that the project uses there."""

    name: str
    """The seed."""
    usage: ResourceDetails = ResourceDetails()
    """What it said last. Absent: it has not said anything yet."""
    stale_since: Annotated[str, _TIME] = ""
    """Since when it could not be asked. Absent: it can be."""
    incomplete_since: Annotated[str, _TIME] = ""
    """Since when the figures of a cluster there are missing, or not of now. Absent: all are there."""


class UsageForPeople(Value):
    """What is used of what is allowed, in units for people: rounded, not for programs."""

    cpu: str = ""
    """Processors that are used and allowed: `3/5`, `3/unlimited`."""
    memory: str = ""
    """Memory that is used and allowed: `12Gi/100Gi`. Used is rounded up, allowed is rounded down."""
    storage: str = ""
    """Disk that is used and allowed."""


class ResourceQuotaStatus(Value):
    """What is used."""

    global_usage: ResourceDetails = ResourceDetails()
    """What the project's machines take on all seeds together. Absent: nobody has counted yet."""
    local_usage: ResourceDetails = ResourceDetails()
    """What they take on the seed that this object is on. On the master it is absent, unless that is a seed itself."""
    observed_generation: int = 0
    """The metadata.generation that all of this was said about."""
    shown: UsageForPeople = UsageForPeople()
    """What `kubectl get` shows."""
    seeds: Annotated[tuple[SeedUsage, ...], listed_by("name")] = ()
    """What each seed has said, on the master: the figures of one that is out of reach stay."""
    conditions: Conditions = ()
    """`Ready`: the quota is in force. `WithinQuota`: the project uses no more than it may. `UsageFresh`: the figures of all
    seeds are there, and of now. `LocalUsageFresh`, on a seed: those of all clusters there are. `Replacing`, on a seed: machines
    that replace others have passed the limit there, as the setting `surge: replace` allows; absent: none have."""


class ResourceQuota(Object):
    """How much CPU, memory and disk the machines of a project may take, over all of its clusters. It is called
    `project-<id>`; administrators set it on the master, and every seed has a copy."""

    spec: ResourceQuotaSpec
    """What may be used, and by whom."""
    status: ResourceQuotaStatus = ResourceQuotaStatus()
    """What is used."""


_CONDITION: Final = '.status.conditions[?(@.type=="%s")].status'

PROJECT_QUOTAS: Final = Kind(
    GROUP,
    VERSION,
    "ResourceQuota",
    "resourcequotas",
    ResourceQuota,
    namespaced=False,
    columns=(
        Column("Subject", ".spec.subject.name", description="The project."),
        Column("CPU", ".status.shown.cpu", description="Processors: used and allowed."),
        Column("Memory", ".status.shown.memory", description="Memory: used and allowed."),
        Column("Storage", ".status.shown.storage", description="Disk: used and allowed."),
        Column("Within", _CONDITION % WITHIN_QUOTA, description="Whether no more is used than is allowed."),
        Column("Fresh", _CONDITION % USAGE_FRESH, description="Whether the figures of all seeds are of now."),
        Column("Ready", _CONDITION % READY, description="Whether the quota is in force.", priority=1),
        Column("Kind", ".spec.subject.kind", description="What kind of subject it is.", priority=1),
        AGE,
    ),
    rules=(
        Rule("self == oldSelf", SUBJECT_CHANGED, path="spec.subject"),
        Rule(
            "self.metadata.name == self.spec.subject.kind + '-' + self.spec.subject.name",
            "the quota of a project is called project-<id>, after spec.subject",
            field_path=".metadata.name",
        ),
    ),
)
