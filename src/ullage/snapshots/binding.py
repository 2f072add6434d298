"""When a snapshot and a record belong together: each names the other, by namespace, name and uid. Pure.

Checked before the two are bound, before a snapshot is called ready, before a deletion and before a restore: a snapshot that
was copied to another namespace gets nothing and deletes nothing.
"""

from __future__ import annotations

from ullage.engines.holds import Hold
from ullage.kube.objects import is_deleting
from ullage.snapshots.model import ASKED_AGAIN, SHARED_BY, Problem, Record, Ref, Snapshot


def ref_of(snapshot: Snapshot) -> Ref:
    return Ref(snapshot.meta.namespace, snapshot.meta.name, snapshot.meta.uid)


def refers_to(record: Record, snapshot: Snapshot) -> bool:
    """Whether the record is this very snapshot's: a copy in another namespace, or a later one of the name, is not."""
    return record.ref == ref_of(snapshot)


def misbound(record: Record, snapshot: Snapshot) -> Problem | None:
    """What keeps the two from being bound, where the record is not free for the taking. Whose it is instead is not told: a
    user may name any record, and would learn of other tenants' snapshots."""
    ref = record.ref
    if refers_to(record, snapshot):
        return None
    if (ref.namespace, ref.name) == (snapshot.meta.namespace, snapshot.meta.name) and not ref.uid and record.imported:
        return None
    return Problem("RecordMisbound", f"{record.meta.name} belongs to another snapshot, not to this one")


def hold_of(record: Record, *, kind: str) -> Hold:
    """What is put on the storage system's snapshot, and on its volume, as long as the record needs them. `kind` is the
    record's."""
    ref, meta = record.ref, record.meta
    return Hold(id=meta.uid, kind="VolumeSnapshot", namespace=ref.namespace, name=ref.name, kept_by=f"{kind}/{meta.name}")


def needs_data(record: Record, snapshot: Snapshot | None) -> bool:
    """Whether the storage system's snapshot must stay for a record. One that is going has it deleted, if its policy says so:
    then it holds nothing; but it does not go before the snapshot that is bound to it."""
    if not is_deleting(record.meta) or record.policy == "Retain":
        return True
    return snapshot is not None and refers_to(record, snapshot) and not is_deleting(snapshot.meta)


def in_progress(snapshot: Snapshot, record: Record | None) -> bool:
    """Whether the source volume is still needed: it is not cut, and there is something left to try."""
    if snapshot.imported_record or record is None or not refers_to(record, snapshot):
        return False
    problem = record.state.problem
    return not record.handle and (record.begun or problem is None or problem.reason in ASKED_AGAIN)


def was_shared(record: Record) -> bool:
    """Whether an administrator has given its snapshot to the namespace, and may take it back."""
    return SHARED_BY in record.meta.annotations
