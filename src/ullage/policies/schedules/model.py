"""What a schedule makes: the names and marks of its snapshots, and how each of them stands. Pure.

A snapshot is of a schedule if it has the label of a group, and its name is the one that follows from the schedule, the claim
and the time that stand on it. A snapshot that somebody took by hand, or copied with all its labels, has another name: no
retention ever touches it. The annotations are written by Ullage alone: the webhook takes off what others write.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ullage.errors import Terminal
from ullage.kube.objects import Json, is_deleting, name_for
from ullage.ledger.charging.booking import RESOURCE, payer
from ullage.policies.cut_hooks.api import HOOKS, encode_hooks
from ullage.policies.schedules.api import SnapshotSchedule
from ullage.snapshots.model import COPYING, PASSING, PROTECTED, Snapshot, label_value
from ullage.times import read_time, timestamp

GROUP_LABEL: Final = "ullage.io/schedule"  # on a snapshot that a schedule made: its group
SCHEDULED_BY: Final = "ullage.io/scheduled-by"  # annotation: the name of the schedule
SCHEDULED_FOR: Final = "ullage.io/scheduled-for"  # annotation: the scheduled time
SEEN: Final = "ullage.io/seen-before-cut"  # annotation: when it was there already, though its cut lay ahead by far
RUN_NOW: Final = "ullage.io/run-now"  # annotation on a schedule: the time of a request to run at once
NAME_LIMIT: Final = 120  # characters of a snapshot's name
OWN_DOMAIN: Final = "ullage.io"
SILENT: Final = timedelta(hours=1)  # for which one of which nothing is heard keeps others from being made
LONGEST: Final = timedelta(hours=12)  # that one may be in the making: less than a day, so that no nightly run is left out
SLOWEST: Final = timedelta(days=7)  # the same, once it is cut, or while it tells how far it is
AHEAD: Final = timedelta(hours=1)  # what is later than now by more than this was written by a clock that was wrong


def group_of(schedule: SnapshotSchedule) -> str:
    """The value of the label that its snapshots have."""
    return schedule.spec.group or label_value(schedule.metadata.name)


def snapshot_name(schedule: str, claim: str, time: str) -> str:
    """The same for one schedule, claim and time, whoever makes it and however often. `time` is as on the snapshot."""
    return name_for(schedule, claim, time, limit=NAME_LIMIT)


def is_own_label(key: str) -> bool:
    """Whether a label belongs to Ullage."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and (prefix == OWN_DOMAIN or prefix.endswith(f".{OWN_DOMAIN}"))


def new_metadata(schedule: SnapshotSchedule, claim: str, time: str) -> Json:
    """The metadata of a snapshot."""
    meta, labels, hooks = schedule.metadata, schedule.spec.template.labels, schedule.spec.hooks
    notes = {HOOKS: encode_hooks(hooks)} if hooks else {}
    return {
        "name": snapshot_name(meta.name, claim, time),
        "namespace": meta.namespace,
        "labels": {**{key: value for key, value in labels.items() if not is_own_label(key)}, GROUP_LABEL: group_of(schedule)},
        "annotations": {**notes, SCHEDULED_BY: meta.name, SCHEDULED_FOR: time},
    }


def new_spec(dialect: str, claim: str, class_name: str) -> Json:
    """The spec of a snapshot, by the name of its dialect."""
    if dialect == "ga":
        source = {"source": {"persistentVolumeClaimName": claim}}
        return {**source, **({"volumeSnapshotClassName": class_name} if class_name else {})}
    return {"persistentVolumeClaimName": claim, **({"storageClassName": class_name} if class_name else {})}


# --- what is there ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A snapshot that a schedule made."""

    snapshot: Snapshot
    dialect: str
    group: str
    schedule: str
    time: datetime  # that it is for

    @property
    def name(self) -> str:
        return self.snapshot.meta.name

    @property
    def key(self) -> tuple[str, str]:
        """In its namespace: both APIs may have one of a name."""
        return self.dialect, self.name

    @property
    def claim(self) -> str:
        return self.snapshot.claim

    @property
    def going(self) -> bool:
        return is_deleting(self.snapshot.meta)

    @property
    def good(self) -> bool:
        """Whether a volume can be made from it."""
        return self.snapshot.state.ready and not self.snapshot.state.lost and not self.going

    @property
    def failed(self) -> bool:
        """Whether it will never be good, as far as is known."""
        problem = self.snapshot.state.problem
        return not self.going and not self.good and problem is not None and problem.reason not in PASSING

    @property
    def making(self) -> bool:
        return not (self.going or self.good or self.failed)

    @property
    def quiet(self) -> bool:
        """Whether it is in the making, and reports no problem."""
        return self.making and self.snapshot.state.problem is None

    @property
    def copying(self) -> bool:
        """Whether it tells how far it is."""
        waiting = self.snapshot.state.waiting
        return waiting is not None and waiting.reason == COPYING

    def holds_up(self, now: datetime) -> bool:
        """Whether others wait for it where only so many may be in the making. One that reports a problem holds up nobody, and
        one of which nothing is heard does so for a while: storage systems forget what they were asked for, too."""
        return self.quiet and (self.copying or now - self.asked < SILENT)

    def given_up(self, now: datetime) -> bool:
        """Whether it has been in the making for so long that it counts as failed: otherwise one that never gets done would take
        its claim out of every later run. What is cut, or tells how far it is, may take days until it can be read."""
        slow = self.copying or self.snapshot.state.cut is not None
        return self.making and now - self.asked >= (SLOWEST if slow else LONGEST)

    @property
    def asked(self) -> datetime:
        """When it was asked for."""
        return read_time(self.snapshot.meta.creation_timestamp) or self.time

    @property
    def protected(self) -> bool:
        return self.snapshot.meta.annotations.get(PROTECTED) == "true"

    @property
    def born(self) -> datetime:
        """What its age counts from: the moment whose data it has. The time that it is for says nothing of that: it is in its
        name, which jitter, requests to run at once, clocks that are wrong, and whoever makes one by hand choose freely."""
        return self.snapshot.state.cut or read_time(self.snapshot.meta.creation_timestamp) or self.time

    @property
    def seen(self) -> datetime | None:
        """When it was there already, if its own cut claims to be later: a clock was ahead."""
        return read_time(self.snapshot.meta.annotations.get(SEEN, ""))

    @property
    def known_since(self) -> datetime:
        """What is older or newer goes by. Its age does not: a clock of ours that was far behind would have written it, too, and
        is not to make anything old."""
        return min(self.born, self.seen or self.born)

    @property
    def precedes(self) -> bool:
        """Whether it was there before the time that it is for."""
        return self.known_since < self.time - AHEAD

    @property
    def size(self) -> int:
        """Bytes: what its namespace is charged for it; where nobody is, or somebody else, what a volume made from it needs."""
        try:
            stamp = payer(self.snapshot.meta)
        except Terminal:
            stamp = None
        if stamp is None:
            return self.snapshot.state.restore_size or 0
        return max((amount.value() for cell, amount in stamp.cells.items() if cell.resource == RESOURCE), default=0)


def read_scheduled(snapshot: Snapshot, dialect: str) -> Scheduled | None:
    """None: no schedule made it."""
    meta = snapshot.meta
    group, schedule = meta.labels.get(GROUP_LABEL, ""), meta.annotations.get(SCHEDULED_BY, "")
    text = meta.annotations.get(SCHEDULED_FOR, "")
    time = read_time(text)
    if not (group and schedule and snapshot.claim and time) or timestamp(time) != text:
        return None
    if meta.name != snapshot_name(schedule, snapshot.claim, text):
        return None
    return Scheduled(snapshot=snapshot, dialect=dialect, group=group, schedule=schedule, time=time)
