"""What is next for a share in one namespace, from what is seen of it. Pure.

    entry in the status ──▶ record made ──▶ it is ready: snapshot made ──▶ its uid in the status: shared
                                │ the source goes: the record goes             │ the namespace deletes it: removed
    not granted any more ──▶ snapshot deleted, then the record, then the entry

What is to be made is written down before it is made, so whoever comes after a kill finds it, and takes it back if need be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

from msgspec.structs import replace

from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, is_deleting, set_condition
from ullage.names import is_label, is_subdomain
from ullage.policies.sharing.api import MOST_TARGETS, READY, ShareSpec, ShareStatus, ShareTarget, SnapshotShare
from ullage.policies.sharing.model import name_there, record_name, stands_for
from ullage.snapshots.binding import refers_to
from ullage.snapshots.model import Problem, Record, Snapshot

NOT_MANAGED: Final = "DriverNotManaged"
NO_NAME: Final = "none"  # in the place of a name that nothing can have


class Act(Enum):
    NOTHING = auto()
    CREATE_RECORD = auto()
    CREATE_SNAPSHOT = auto()
    DELETE_SNAPSHOT = auto()
    DELETE_RECORD = auto()
    FORGET = auto()  # nothing is left of it: the entry goes


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What is seen of a share in one namespace. `snapshot` has the name that it would have there."""

    share: SnapshotShare
    entry: ShareTarget
    granted: bool  # the namespace is there, is the one of the entry, and is to have it
    source: Record | Problem  # the record to share, or why it cannot be
    record: Record | None = None
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Step:
    act: Act
    entry: ShareTarget


def corrected(spec: ShareSpec) -> Json | None:
    """What makes the names of a share that is being deleted such as the schema allows; None: they are. Such a name was stored
    before the schema refused it, and nothing has it. A server without ratcheting would refuse every other write of the share,
    and the finalizer would stay."""
    changes: Json = {}
    if not (is_label(spec.source.namespace) and is_subdomain(spec.source.name)):
        changes["source"] = {"namespace": NO_NAME, "name": NO_NAME}
    if not all(map(is_label, spec.targets.namespaces)):
        changes["targets"] = {"namespaces": [one for one in spec.targets.namespaces if is_label(one)]}
    if spec.name and not is_subdomain(spec.name):
        changes["name"] = None
    return changes or None


def next_step(facts: TargetFacts) -> Step:
    entry, snapshot, record = facts.entry, facts.snapshot, facts.record
    if not facts.granted:
        return _taken_back(facts, replace(entry, state="Revoking", message="it is not granted any more"))
    ours = snapshot is not None and stands_for(snapshot, entry.record)
    if entry.snapshot_uid or entry.state == "Removed":
        if ours and snapshot is not None and snapshot.meta.uid == entry.snapshot_uid and not is_deleting(snapshot.meta):
            return Step(Act.NOTHING, replace(entry, state="Shared", message=_said(snapshot)))
        gone = replace(entry, state="Removed", message="the namespace has deleted it; to give it again, make another share")
        leaves = record is not None and not is_deleting(record.meta) and not ours
        return Step(Act.DELETE_RECORD if leaves else Act.NOTHING, gone)
    if ours and snapshot is not None:
        return Step(Act.NOTHING, replace(entry, snapshot_uid=snapshot.meta.uid, state="Shared", message=_said(snapshot)))
    if isinstance(facts.source, Problem):
        waits = replace(entry, state="Waiting", message=facts.source.message)
        goes = record is not None and not is_deleting(record.meta) and facts.source.reason != NOT_MANAGED  # the data would, too
        return Step(Act.DELETE_RECORD if goes else Act.NOTHING, waits)
    return _given(facts, record)


def _given(facts: TargetFacts, record: Record | None) -> Step:
    entry = facts.entry
    if facts.snapshot is not None:
        problem = f"VolumeSnapshot {name_there(facts.share)} exists there already, and is another one"
        return Step(Act.NOTHING, replace(entry, state="Refused", message=problem))
    if record is None:
        return Step(Act.CREATE_RECORD, replace(entry, state="Preparing", message=""))
    if is_deleting(record.meta):
        return Step(Act.NOTHING, replace(entry, state="Waiting", message=f"{record.meta.name} is being deleted"))
    if not record.state.ready:
        why = record.state.problem.message if record.state.problem is not None else "the driver has not answered yet"
        return Step(Act.NOTHING, replace(entry, state="Preparing", message=why))
    return Step(Act.CREATE_SNAPSHOT, replace(entry, state="Preparing", message=""))


def _taken_back(facts: TargetFacts, entry: ShareTarget) -> Step:
    snapshot, record = facts.snapshot, facts.record
    if snapshot is not None and stands_for(snapshot, entry.record):
        return Step(Act.NOTHING if is_deleting(snapshot.meta) else Act.DELETE_SNAPSHOT, entry)
    if record is not None:
        return Step(Act.NOTHING if is_deleting(record.meta) else Act.DELETE_RECORD, entry)
    if entry.namespace in facts.share.spec.targets.namespaces and not is_deleting(facts.share.metadata):
        message = "the namespace that it was for is gone; to give it to another one of the name, make another share"
        return Step(Act.NOTHING, replace(entry, state="Removed", message=message))
    return Step(Act.FORGET, entry)


def _said(snapshot: Snapshot) -> str:
    return snapshot.state.problem.message if snapshot.state.problem is not None else ""


# --- the share -------------------------------------------------------------------------------------------------------


def source_of(
    share: SnapshotShare, snapshot: Snapshot | None, record: Record | None, *, drivers: Collection[str]
) -> Record | Problem:
    """What is to be shared, or why that cannot be (yet). `drivers` are those whose snapshots are ours to delete: another
    snapshotter deletes the data with a record, whoever else names it."""
    where = f"{share.spec.source.namespace}/{share.spec.source.name}"
    if snapshot is None or is_deleting(snapshot.meta):
        return Problem("SourceNotFound", f"VolumeSnapshot {where} does not exist, or is being deleted")
    if share.status.source_uid and share.status.source_uid != snapshot.meta.uid:
        return Problem("SourceReplaced", f"VolumeSnapshot {where} is not the one any more that was granted: make another share")
    if record is None or not refers_to(record, snapshot) or is_deleting(record.meta):
        return Problem("SourceNotReady", f"VolumeSnapshot {where} is not bound yet")
    if record.driver not in drivers:
        known = ", ".join(sorted(drivers)) or "none"
        return Problem(
            NOT_MANAGED,
            f"VolumeSnapshot {where} is of driver {record.driver}, whose snapshots are not deleted by Ullage (it serves "
            f"{known}): its data would go with the first who deletes it. Name the driver: ullage controller "
            f"--driver {record.driver}=…",
        )
    if not (record.handle and record.state.ready):
        return Problem("SourceNotReady", f"VolumeSnapshot {where} is not ready yet")
    return record


def granted_to(share: SnapshotShare, namespaces: Iterable[Meta]) -> dict[str, Meta]:
    """The namespaces that are to have it, by name; no more than there may be. Those that were given it come first: a namespace
    that is made later takes nothing from others."""
    if is_deleting(share.metadata):
        return {}
    targets, own = share.spec.targets, share.spec.source.namespace
    wanted = targets.match_labels.items()
    found = {
        one.name: one
        for one in namespaces
        if one.name != own
        and not is_deleting(one)
        and (one.name in targets.namespaces or (wanted and all(one.labels.get(key) == value for key, value in wanted)))
    }
    given = {(one.namespace, one.namespace_uid) for one in share.status.targets}
    order = sorted(found, key=lambda name: ((name, found[name].uid) not in given, name))
    return {name: found[name] for name in order[:MOST_TARGETS]}


def planned(share: SnapshotShare, granted: Mapping[str, Meta], *, uid: str) -> ShareStatus:
    """The status with an entry for every namespace that is to have it: the intent. `uid` is that of the source, if it is there:
    from then on no other snapshot of the name is given."""
    known = {one.namespace for one in share.status.targets}
    new = [
        ShareTarget(namespace=name, namespace_uid=meta.uid, record=record_name(share, name))
        for name, meta in granted.items()
        if name not in known
    ]
    room = max(0, MOST_TARGETS - len(share.status.targets))
    targets = (*share.status.targets, *new[:room])
    return replace(share.status, targets=targets, source_uid=share.status.source_uid or uid)


def is_granted(entry: ShareTarget, granted: Mapping[str, Meta]) -> bool:
    """Another namespace of the name was never meant."""
    found = granted.get(entry.namespace)
    return found is not None and found.uid == entry.namespace_uid


def concluded(share: SnapshotShare, targets: Iterable[ShareTarget], source: Record | Problem, now: datetime) -> ShareStatus:
    listed = tuple(targets)
    shared = sum(one.state == "Shared" for one in listed)
    open_ = [one for one in listed if one.state not in ("Shared", "Removed")]
    if open_:
        first = open_[0]
        reason = source.reason if isinstance(source, Problem) and first.state == "Waiting" else first.state
        message = f"{len(open_)} of {len(listed)} namespaces do not have it; {first.namespace}: {first.message or first.state}"
    else:
        reason, message = "Shared", f"{shared} namespaces have it"
    conditions = set_condition(
        share.status.conditions,
        READY,
        status=not open_,
        reason=reason,
        message=message,
        generation=share.metadata.generation,
        now=now,
    )
    return replace(share.status, shared=shared, targets=listed, conditions=conditions)
