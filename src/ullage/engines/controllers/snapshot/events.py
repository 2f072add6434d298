"""Events on Snapshots, for `kubectl describe`. The cause decides whether one is a Warning.

A Snapshot that the monitor made for what an engine already had gets no Event at first: an upgrade makes 30,000 of them.
"""

from __future__ import annotations

from typing import Final

from ullage.engines.api import SNAPSHOTS, Snapshot, SnapshotStatus
from ullage.engines.controllers.snapshot.statuses import LOST
from ullage.engines.model import blocked_before, has_failed
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder

READY: Final = Reason("SnapshotReady")
GONE: Final = Reason("SnapshotLost")
MARKED: Final = Reason("SnapshotMarked")
FAILED: Final = Reason("SnapshotFailed", type="Warning")
TROUBLED: Final = Reason("SnapshotTroubled", type="Warning")
WAITING: Final = Reason("SnapshotWaiting")


def record_events(recorder: EventRecorder, snapshot: Snapshot, new: SnapshotStatus, *, trouble: bool) -> None:
    """Tells what a new status means, compared with the one that the snapshot has. `trouble`: something went wrong; otherwise
    its error is only what it waits for."""
    for reason, note in events_for(snapshot, new, trouble=trouble):
        recorder.record(SNAPSHOTS, snapshot, reason, note=note)


def events_for(snapshot: Snapshot, new: SnapshotStatus, *, trouble: bool) -> list[tuple[Reason, str]]:
    old = snapshot.status
    found: list[tuple[Reason, str]] = []
    if new.ready_to_use is True and old.ready_to_use is not True and (snapshot.spec.create_snapshot or old.creation_time):
        found.append((READY, "The snapshot is ready to use."))
    if has_failed(new) and not has_failed(old):
        found.append((FAILED, new.error))
    elif new.error == LOST and old.error != LOST:
        found.append((GONE, "The snapshot is not in the engine any more."))
    elif new.error and new.error != old.error:
        found.append((TROUBLED if trouble else WAITING, new.error))
    blocked = blocked_before(new)
    if blocked is not None and blocked_before(old) is None:
        found.append((MARKED, f"The snapshot is marked as removed: {blocked.message}."))
    return found
