"""Whether a claim is still held for one of its snapshots. Pure.

Of a long queue each snapshot changes several times, and a claim is looked at with all of its snapshots. So it is looked at
only where something has changed that it may be held for: `snapshot_facts` and `record_facts` are all that counts.
"""

from __future__ import annotations

from ullage.snapshots.binding import in_progress
from ullage.snapshots.model import Record, Snapshot


def needs_claim(snapshot: Snapshot, record: Record | None) -> bool:
    """Whether the claim must stay for this snapshot: it is being taken, or is about to be."""
    if record is not None:
        return in_progress(snapshot, record)
    state = snapshot.state
    return snapshot.meta.deletion_timestamp is None and not state.record and state.problem is None


def snapshot_facts(snapshot: Snapshot) -> tuple[object, ...]:
    meta, state = snapshot.meta, snapshot.state
    return meta.uid, meta.deletion_timestamp, state.record, state.problem is None, snapshot.claim


def record_facts(record: Record) -> tuple[object, ...]:
    problem = record.state.problem
    return record.meta.uid, record.ref, record.handle, record.begun, problem is None, problem and problem.reason
