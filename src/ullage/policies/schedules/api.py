"""SnapshotSchedule: when snapshots of which claims are taken, and which of them are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Value
from ullage.kube.objects import Conditions
from ullage.names import LABEL_VALUE_PATTERN, SUBDOMAIN_LIMIT, SUBDOMAIN_PATTERN, or_empty
from ullage.policies.cut_hooks.api import HookSpec, hook_rules

GROUP: Final = "ullage.io"
VERSION: Final = "v1alpha1"
MOST_LABELS: Final = 16
MOST_TERMS: Final = 16  # of a selector
MOST_VALUES: Final = 64  # of a term
MOST_PROBLEMS: Final = 5  # reasons of one run that are told apart

READY: Final = "Ready"
SUSPENDED: Final = "Suspended"


def _mark(**schema: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


_TIME: Final = _mark(format="date-time")
_NAME: Final = _mark(maxLength=SUBDOMAIN_LIMIT, pattern=or_empty(SUBDOMAIN_PATTERN))
_LABEL: Final = _mark(maxLength=63)
_COUNT: Final = _mark(minimum=0)
_SIZE: Final = _mark(pattern=r"^[0-9]+(\.[0-9]+)?([kMGTPE]|[KMGTPE]i)?$", maxLength=32)
_LABELS: Final = _mark(maxProperties=MOST_LABELS)

_NONE: Final[Mapping[str, str]] = {}


class ScheduleTerm(Value):
    """One condition on the labels of a claim."""

    key: Annotated[str, _mark(maxLength=317)]
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In and NotIn compare with `values`; Exists and DoesNotExist have none."""
    values: Annotated[tuple[Annotated[str, _LABEL], ...], ATOMIC, _mark(maxItems=MOST_VALUES)] = ()
    """The values to compare with, 64 at most."""


class ScheduleSelector(Value):
    """Claims by their labels: all conditions hold. An empty selector, `{}`, selects every claim of the namespace."""

    match_labels: Annotated[Mapping[str, Annotated[str, _LABEL]], _LABELS] = _NONE
    """Labels that a claim has, with their values. 16 at most."""
    match_expressions: Annotated[tuple[ScheduleTerm, ...], ATOMIC, _mark(maxItems=MOST_TERMS)] = ()
    """Further conditions. 16 at most."""


class ScheduleTemplate(Value):
    """What the snapshots of a schedule have besides the labels of Ullage."""

    labels: Annotated[Mapping[str, Annotated[str, _LABEL]], _LABELS] = _NONE
    """Labels of the snapshots. 16 at most; none of ullage.io."""


class ScheduleRetention(Value):
    """Which snapshots are kept. All rules that are set apply: what any of them does not keep is deleted, the oldest first.
    However they are set, the newest good snapshot of a claim stays, and so does one that a claim is being restored from, and
    one with the annotation `ullage.io/protected: "true"`. Only snapshots that a schedule made are ever deleted."""

    count: Annotated[int, _mark(minimum=1, maximum=10000)] | UnsetType = UNSET
    """How many good snapshots are kept of each claim. Absent: any number."""
    age: Annotated[str, _mark(pattern=r"^[1-9][0-9]{0,5}[mhdw]$")] | UnsetType = UNSET
    """How old a snapshot may become: minutes, hours, days or weeks (`90m`, `36h`, `30d`, `8w`). A day has 24 hours. Absent: any
    age."""
    total_size: Annotated[str, _SIZE] | UnsetType = UNSET
    """How much the good snapshots of this group may take together, of all claims (`100Gi`). What a snapshot takes is what its
    namespace is charged for it; where nobody is charged, its restore size. Absent: any size."""
    failed: Annotated[int, _mark(minimum=0, maximum=100)] = 3
    """How many failed snapshots are kept of each claim, to be looked at. One that is not done after 12 hours counts as failed;
    after 7 days, once it is cut or while it tells how far it is."""


class ScheduleSpec(Value):
    """What is asked for."""

    schedule: Annotated[str, _mark(minLength=1, maxLength=100)]
    """When: five fields of cron, minute (0-59), hour (0-23), day of month (1-31), month (1-12 or JAN-DEC) and day of week (0-7
    or SUN-SAT; 0 and 7 are Sunday), each `*`, a number, a range `1-5`, a list `1,15` or a step `*/10`; or @hourly, @daily,
    @weekly, @monthly, @yearly. Where both day fields are restricted, either of them is enough, as in cron.

    When clocks change: a schedule whose minute or hour begins with `*` goes by the time that passes, so an hour that does not
    exist has no runs and one that exists twice has its runs twice. Every other schedule names times of day: one that does not
    exist runs as soon as the clocks have changed, and one that exists twice runs the first time only."""
    time_zone: Annotated[str, _mark(maxLength=64)] = "UTC"
    """The time zone that the schedule is in, as in the IANA database: `Europe/Berlin`."""
    claim_selector: ScheduleSelector
    """The claims of the namespace that snapshots are taken of, as they are when a run begins. `{}`: all of them."""
    snapshot_class_name: Annotated[str, _NAME] = ""
    """The VolumeSnapshotClass (of the prototype API: the StorageClass) of the snapshots. Absent: the default, as for any
    snapshot."""
    dialect: Literal["ga", "prototype"] = "ga"
    """The API of the snapshots. ga: VolumeSnapshot of snapshot.storage.k8s.io/v1. prototype: VolumeSnapshot of
    volumesnapshot.external-storage.k8s.io/v1. It may be changed: retention is about the snapshots of both."""
    template: ScheduleTemplate = ScheduleTemplate()
    """What the snapshots have besides the labels of Ullage."""
    hooks: HookSpec | UnsetType = UNSET
    """What is run in pods that mount a claim, right before and right after it is cut. Whoever writes a schedule that has hooks
    must be one who may exec into the pods of the namespace."""
    group: Annotated[str, _mark(maxLength=63, pattern=LABEL_VALUE_PATTERN)] = ""
    """The snapshots that retention is about: those with the label `ullage.io/schedule` of this value. Absent: the schedule's
    own name. A schedule that is created anew under its name goes on with what is there; one under another name does, if this
    names the former group. Several schedules of one group share its snapshots, and the rules of each apply to all."""
    retention: ScheduleRetention = ScheduleRetention()
    """Which snapshots are kept."""
    concurrency_limit: Annotated[int, _mark(minimum=1, maximum=100)] = 10
    """How many snapshots of this schedule may be in the making at once. The others of a run wait for their turn. One that
    reports a problem holds up nobody, and one of which nothing is heard does so for an hour."""
    jitter_seconds: Annotated[int, _mark(minimum=0, maximum=86400)] = 0
    """A run begins up to so many seconds late, by an amount that follows from the schedule and the time: so schedules of one
    minute are spread, and each run has the same delay whoever makes it. Never more than half of the time to the next run."""
    starting_deadline_seconds: Annotated[int, _mark(minimum=10, maximum=31536000)] | UnsetType = UNSET
    """How late a run may still begin, or take snapshots that were refused for the moment. Absent: until the next one is due. Of
    the runs that were missed, the last one at most is made up for."""
    suspend: Annotated[bool, _mark(default=False)] = False  # written out, so that `kubectl get` shows it
    """While true, nothing is taken and nothing is deleted. Runs that come due meanwhile are not made up for."""


class ScheduleError(Value):
    """What went wrong last."""

    time: Annotated[str, _TIME] = ""
    """When."""
    claim: str = ""
    """The claim that got no snapshot, if it is about one."""
    message: str = ""
    """What went wrong, and what to do about it."""


class RunProblem(Value):
    """A reason why claims got no snapshot in a run."""

    claim: Annotated[str, _mark(maxLength=SUBDOMAIN_LIMIT)] = ""
    """The first claim that it was told of."""
    message: Annotated[str, _mark(maxLength=1024)] = ""
    """What was told of that claim."""
    refused: bool = False
    """The request was refused. Otherwise the last snapshot of the claim is not done yet."""
    others: bool = False
    """Other claims got none for the same reason."""


class ScheduleRun(Value):
    """A run that is under way."""

    scheduled_time: Annotated[str, _TIME]
    """The time that it is for. It is in the names of its snapshots."""
    started: Annotated[str, _TIME] = ""
    """When it began."""
    manual: bool = False
    """It was asked for with `ullage schedule run-now`."""
    place: str = ""
    """How far it is: claims have an order of their own in each run, and those up to here have been dealt with."""
    made: Annotated[int, _COUNT] = 0
    """How many snapshots it has made."""
    failed: Annotated[int, _COUNT] = 0
    """How many claims got none."""
    refused: Annotated[int, _COUNT] = 0
    """How many of these were refused one after the other: too many end the run."""
    problems: Annotated[tuple[RunProblem, ...], ATOMIC, _mark(maxItems=MOST_PROBLEMS)] = ()
    """Why claims got none: the reasons that differ, the gravest first."""


class ScheduleStatus(Value):
    """What came of it. Users read this and never write it."""

    last_scheduled_time: Annotated[str, _TIME] = ""
    """The last scheduled time that was dealt with, by a run or by letting it go."""
    last_run: Annotated[str, _TIME] = ""
    """When the last run began."""
    next_run: Annotated[str, _TIME] = ""
    """When the next run begins, with its jitter. Absent: never, or the schedule is suspended."""
    run: ScheduleRun | UnsetType = UNSET
    """The run that is under way."""
    last_request: Annotated[str, _mark(maxLength=64)] = ""
    """The last request for a run at once that was dealt with."""
    made: Annotated[int, _COUNT] = 0
    """How many snapshots it has made in all."""
    failed: Annotated[int, _COUNT] = 0
    """How often a claim got no snapshot in a run: it was refused, or not reached in time, or its last one is not done yet."""
    kept: Annotated[int, _COUNT] | UnsetType = UNSET
    """How many good snapshots of its group there are."""
    broken: Annotated[int, _COUNT] = 0
    """How many failed snapshots of its group there are."""
    last_error: ScheduleError | UnsetType = UNSET
    """What went wrong last. It stays until a run has made a snapshot of every claim."""
    conditions: Conditions = ()
    """`Ready`: whether the schedule can run and its last run made every snapshot. `Suspended`: whether it is suspended."""


class SnapshotSchedule(Object):
    """Takes snapshots of claims at the times of a cron expression, and deletes those that are not to be kept. All of it
    happens in its own namespace, within the limits of that."""

    spec: ScheduleSpec
    """What is asked for."""
    status: ScheduleStatus = ScheduleStatus()
    """What came of it."""


SCHEDULES: Final = Kind(
    GROUP,
    VERSION,
    "SnapshotSchedule",
    "snapshotschedules",
    SnapshotSchedule,
    short_names=("snapsched",),
    columns=(
        Column("Schedule", ".spec.schedule", description="When snapshots are taken."),
        Column("Next", ".status.nextRun", description="When the next run begins."),
        Column("Last", ".status.lastRun", type="date", description="When the last run began."),
        Column("Kept", ".status.kept", type="integer", description="How many good snapshots there are."),
        Column("Suspend", ".spec.suspend", type="boolean", description="Whether it is suspended."),
        AGE,
        Column("Time zone", ".spec.timeZone", description="The time zone of the schedule.", priority=1),
        Column("Failed", ".status.failed", type="integer", description="How often a claim got no snapshot.", priority=1),
        Column("Error", ".status.lastError.message", description="What went wrong last.", priority=1),
    ),
    rules=hook_rules("spec.hooks"),
)
