"""How far a snapshot is: whether what is waited for has come or can come no more, and what is worth a line meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final

from ullage.cli.common.text import moment, plain, size
from ullage.cli.snapshot.text import problem
from ullage.snapshots.metrics import state_of
from ullage.snapshots.model import COPYING, Problem, Snapshot, State
from ullage.times import read_time

# Problems that pass by themselves: the controller goes on trying, or something else has to happen first. One without a
# reason is from another snapshotter, which tries again whatever it was.
PASSING: Final = frozenset({"", "DriverRetrying", "ClaimNotBound", "SnapshotInUse"})

NEXT_STEPS: Final[Mapping[str, str]] = {
    "ClaimNotFound": "create the claim, or delete the snapshot and take one of another claim",
    "ClaimDeleting": "delete the snapshot: the claim is going",
    "ClaimNotBound": "wait until the claim is Bound; its events say what it waits for",
    "VolumeNotFound": "the claim has lost its volume: restore an earlier snapshot to a new claim",
    "VolumeMisbound": "an administrator has to see why claim and volume disagree",
    "VolumeNotSupported": "this volume has no snapshots: move the data to one of a class that has",
    "DriverNotManaged": "an administrator sets the driver up in the controller's settings",
    "ClassNotFound": "create the class, or delete the snapshot and name another class",
    "ClassInvalid": "an administrator mends the class, or delete the snapshot and name another class",
    "BadParameters": "an administrator mends the class's annotation, or delete the snapshot and name another class",
    "NoDefaultClass": "delete the snapshot and take it with --class, or have a default class marked",
    "SeveralDefaultClasses": "delete the snapshot and take it with --class, or leave one default mark",
    "NoStorageClass": "delete the snapshot and take it with --class",
    "ProvisionerMismatch": "delete the snapshot and take it with a class of the claim's own driver",
    "RecordMissing": "an administrator makes the record, or the snapshot is lost: delete it",
    "RecordMisbound": "delete this snapshot: what it names belongs to another",
    "RecordMismatch": "name a record that was made for an import",
    "SnapshotLost": "delete it and take another; if the storage system gets it back, it is ready again by itself",
    "InUse": "nothing, unless the record was to go: then delete the snapshot",
    "SnapshotInUse": "wait until the claim is bound, or delete the claim",
    "SnapshotInGroup": "delete the group, and it goes with it: ullage snapshot group delete NAME",
    "DriverRetrying": "nothing: it is tried again, at growing intervals of up to a minute",
    "SnapshotCountLimit": "delete snapshots of the claim that nobody needs, then delete this one and take it again",
    "SnapshotSizeLimit": "delete snapshots of the claim that nobody needs, then delete this one and take it again",
    "NotAsked": "make or mend what the message names: it is tried again then",
    "DriverError": "mend what the message names, then delete the snapshot and take it again",
}


class Verdict(Enum):
    GOING = auto()
    DONE = auto()
    FAILED = auto()  # it will not come without an edit


def judge(snapshot: Snapshot | None, goal: str) -> Verdict:
    """None: it is gone."""
    if goal == "deleted":
        return Verdict.DONE if snapshot is None else Verdict.GOING
    if snapshot is None or snapshot.meta.deletion_timestamp is not None:
        return Verdict.FAILED
    if snapshot.state.ready or (goal == "cut" and snapshot.state.cut is not None):
        return Verdict.DONE
    return Verdict.FAILED if snapshot.state.problem and snapshot.state.problem.reason not in PASSING else Verdict.GOING


def why_failed(snapshot: Snapshot | None, goal: str, *, name: str) -> str:
    if snapshot is None or snapshot.meta.deletion_timestamp is not None or snapshot.state.problem is None:
        return f"snapshot {name} was deleted before it was {goal}"
    return f"snapshot {name} failed: {problem(snapshot.state.problem)}"


def how_far(snapshot: Snapshot | None) -> str:
    """In one word."""
    return "gone" if snapshot is None else state_of(snapshot)


def news(old: Snapshot | None, new: Snapshot | None) -> Iterator[str]:
    """What happened between two looks, a line each. The first look has no old one."""
    if new is None:
        yield "gone"
        return
    before = old.state if old is not None else State()
    if new.meta.deletion_timestamp is not None:
        if old is None or old.meta.deletion_timestamp is None:
            yield "deleting"
    else:
        if old is None and new.state.cut is None:
            yield "requested"
        if new.state.cut is not None and before.cut is None:
            yield f"cut at {moment(new.state.cut)}{_after(new)}; the application may write again"
        if new.state.ready and not before.ready:
            yield f"ready{_sized(new)}"
    yield from _trouble(before.problem, new.state.problem, "trouble")
    if new.state.waiting is None or new.state.waiting.reason != COPYING:  # that has lines of its own, now and then
        yield from _trouble(before.waiting, new.state.waiting, "waits")


def copying(snapshot: Snapshot | None) -> str:
    """How far a copy is that takes long; empty where there is none."""
    waiting = snapshot.state.waiting if snapshot is not None else None
    return plain(waiting.message) if waiting is not None and waiting.reason == COPYING else ""


def _trouble(old: Problem | None, new: Problem | None, word: str) -> Iterator[str]:
    if new is not None and new != old and new.reason != "Creating":  # what every snapshot waits for is no news
        yield f"{word}: {problem(new) if word == 'trouble' else plain(new.message)}"


def _after(snapshot: Snapshot) -> str:
    requested, cut = read_time(snapshot.meta.creation_timestamp), snapshot.state.cut
    if requested is None or cut is None or cut < requested:
        return ""  # an import, or clocks that disagree
    return f" after {(cut - requested).total_seconds():.0f} s"


def _sized(snapshot: Snapshot) -> str:
    known = snapshot.state.restore_size
    return "" if known is None else f"; a volume made from it needs {size(known)}"
