"""What is to be done about a snapshot, whichever API it is of. Pure.

A plan is worked out from what is seen, every time anew; nothing depends on what was done before. Each step of a plan may be
the last that a process does, and the next one's plan goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ullage.engines.handles import DRIVER as ENGINES
from ullage.errors import BadInput
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.snapshots.binding import in_progress, misbound, ref_of, refers_to, was_shared
from ullage.snapshots.class_parameters import SNAPSHOT_ROLES, SNAPSHOTTER, driver_parameters, secret_of, snapshot_variables
from ullage.snapshots.gate import is_paid_whole, pays_for_itself
from ullage.snapshots.model import (
    ABOUT_TO,
    COPYING,
    CREATING,
    CUT,
    DRIVER,
    HOLD,
    HOOKED,
    IN_GROUP,
    NODE,
    SOURCE,
    WAITS,
    Problem,
    Record,
    Ref,
    Snapshot,
    SnapshotClass,
    State,
    group_of,
    labels_for,
)
from ullage.snapshots.settings import Settings
from ullage.snapshots.source_volume import ClaimContext, SourceVolume, find_class, find_source_volume, source_stamps, stamps_on


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """What is seen of a snapshot and of everything that it leads to."""

    snapshot: Snapshot
    record_name: str  # that its record has, or will have
    record: Record | None = None
    context: ClaimContext = field(default_factory=ClaimContext)
    classes: Sequence[SnapshotClass] = ()
    defaults: bool = False  # of the dialect
    settings: Settings = field(default_factory=Settings)
    hooked: bool = False  # commands are to be run in pods before it is cut
    waiting: Problem | None = None  # another snapshot of the volume has its turn
    restoring: Sequence[str] = ()  # claims that are being filled from it
    waiting_claims: Sequence[str] = ()  # claims that are to be filled from it, where nothing was begun yet


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """What to do, in this order. What is absent is left as it is."""

    protect: bool = False  # finalizers and labels on the snapshot, and its class where it named none
    labels: Mapping[str, str] = field(default_factory=dict)
    stamps: Mapping[str, str] = field(default_factory=dict)  # of the record, for those who may not read it
    class_name: str = ""
    hold_claim: bool = False  # the claim must not go: a snapshot of it is being taken
    create_record: Record | None = None
    bind: Ref | None = None
    reclass: Record | None = None  # the record as it is to be with another class
    delete_record: bool = False
    state: State | None = None
    release: bool = False  # the finalizers go
    driver: str = ""


NOTHING: Final = SnapshotPlan()


def plan_snapshot(facts: SnapshotFacts) -> SnapshotPlan:
    if not is_ours(facts):
        return NOTHING
    if is_deleting(facts.snapshot.meta):
        return _deleting(facts)
    plan = _staying(facts)
    return plan if facts.settings.alone else _beside_others(facts, plan)


def _beside_others(facts: SnapshotFacts, plan: SnapshotPlan) -> SnapshotPlan:
    """Another snapshotter may answer for the same snapshot. Where nothing is bound, it may have told why in its own words, and
    have put finalizers back on: two that put each other right would write for ever."""
    snapshot = facts.snapshot
    told = snapshot.state.problem is not None and not snapshot.state.problem.reason
    if told and plan.state is not None and plan.state.problem is not None and not plan.state.record:
        plan = replace(plan, state=None)
    return replace(plan, release=plan.release and DRIVER in snapshot.meta.annotations)


def guarded(facts: SnapshotFacts, plan: SnapshotPlan) -> bool | None:
    """Whether the snapshot is to have the guard; None leaves it as it is. It is taken off a snapshot that is not ours: a
    tenant may have written it there, or a backup, and nobody else would let the snapshot go."""
    if not is_ours(facts) or plan.release:
        return False
    return facts.settings.managed(plan.driver) if plan.protect else None


def may_be_anothers(facts: SnapshotFacts, plan: SnapshotPlan) -> bool:
    """Whether a record that is to be made is one that the GA snapshotter makes too: it knows its own API and CSI volumes."""
    volume = facts.context.volume
    is_csi = volume is not None and volume.spec.csi is not None
    return plan.create_record is not None and facts.defaults and is_csi and not facts.settings.alone


def is_anothers(record: Record) -> bool:
    """Whether another snapshotter has made it: ours have their source written on them from the first."""
    return bool(record.ref.uid) and not record.imported and SOURCE not in record.meta.annotations


def is_orphan(record: Record, snapshot: Snapshot | None, settings: Settings) -> bool:
    """Whether a record stands for nothing: no data, no call that may have made some, and no snapshot that it could be for. A
    snapshotter that was late makes such ones. `snapshot` has the name that the record gives, and is asked of the API itself
    before anything is deleted."""
    if snapshot is not None and refers_to(record, snapshot):
        return False
    ours = settings.alone or settings.managed(record.driver)
    empty = not (record.handle or record.begun or record.imported)
    return ours and empty and bool(record.ref.uid) and not is_deleting(record.meta)


def _staying(facts: SnapshotFacts) -> SnapshotPlan:
    if facts.snapshot.imported_record:
        return _imported(facts)
    if facts.record is not None or facts.snapshot.state.record:
        return _recorded(facts)
    return _begin(facts)


def is_ours(facts: SnapshotFacts) -> bool:
    """Whether the driver is one that we are set to manage; where nothing tells, whether there is nobody else to answer."""
    return facts.settings.alone or facts.settings.managed(driver_of(facts)) or _is_left_to_us(facts)


def _is_left_to_us(facts: SnapshotFacts) -> bool:
    """A snapshot that goes with our note on its finalizers and without a record: nothing but the note tells whose they are."""
    snapshot, record = facts.snapshot, facts.record
    noted = is_deleting(snapshot.meta) and DRIVER in snapshot.meta.annotations
    return noted and (record is None or not refers_to(record, snapshot))


def driver_of(facts: SnapshotFacts) -> str:
    """The driver, by whatever tells it first: the record, the volume, the class, the claim's class. Empty: nothing does."""
    if facts.record is not None:
        return facts.record.driver
    source = find_source_volume(facts.snapshot, facts.context) if facts.snapshot.claim else None
    if isinstance(source, SourceVolume):
        return source.driver
    named = next((one.driver for one in facts.classes if one.name == facts.snapshot.class_name), "")
    return named or (facts.context.storage_class.provisioner if facts.context.storage_class else "")


def _begin(facts: SnapshotFacts) -> SnapshotPlan:
    """No record yet: find out what to take it of, and write the intent down before anything is asked of the driver. The record
    of a group's member is made by whoever has made the member."""
    snapshot = facts.snapshot
    if group_of(snapshot.meta):
        return NOTHING
    source = find_source_volume(snapshot, facts.context)
    if isinstance(source, Problem):
        return _stopped(facts, source)
    if not facts.settings.managed(source.driver):
        known = ", ".join(sorted(facts.settings.drivers)) or "none"
        return _stopped(
            facts, Problem("DriverNotManaged", f"no backend is set up for driver {source.driver} (set up: {known})")
        )
    found = find_class(snapshot, source, context=facts.context, classes=facts.classes, defaults=facts.defaults)
    if isinstance(found, Problem):
        return _stopped(facts, found)
    try:
        record = new_record(facts, source, found)
    except BadInput as error:
        return _stopped(facts, Problem("ClassInvalid", f"class {found.name}: {error}"))
    return SnapshotPlan(
        protect=True,
        labels=labels_for(snapshot.claim, source.volume_name),
        stamps={**stamps_on(record.meta), **({CUT: HOLD, HOOKED: WAITS} if facts.hooked else {})},
        class_name=found.name,
        hold_claim=True,
        create_record=record,
        state=State(record=facts.record_name, waiting=facts.waiting or CREATING_NOW),
        driver=source.driver,
    )


CREATING_NOW: Final = Problem("Creating", "the storage system has been asked for the snapshot")
WAITING: Final = Problem("WaitingForTurn", "another snapshot of the volume is being taken; one is taken at a time")


def _stopped(facts: SnapshotFacts, problem: Problem) -> SnapshotPlan:
    """Nothing was begun, so nothing is held: finalizers of an earlier try go too."""
    return SnapshotPlan(state=State(problem=problem), release=True, driver=driver_of(facts))


def new_record(facts: SnapshotFacts, source: SourceVolume, found: SnapshotClass) -> Record:
    """Returns the record of a snapshot, marked as begun where no other snapshot is before it: the mark is there before the
    driver is asked, and needs no write of its own. A snapshot that is measured and booked first, or waits for others, is
    not marked: until that is settled nothing is begun.

    What deletion needs is written down with it: the class may be gone by then. Raises BadInput for a class with parameters
    that cannot be.
    """
    snapshot = facts.snapshot
    secret = _secret(facts, found)
    annotations = {SOURCE: source.volume.handle, **source_stamps(facts.context, source)}
    if source.volume.node:
        annotations[NODE] = source.volume.node
    unpaid = pays_for_itself(snapshot.meta) and not _is_settled(facts, source)
    held = CUT in snapshot.meta.annotations or facts.hooked
    if (
        facts.waiting is None and secret is None and not (unpaid or held)
    ):  # a Secret may turn out to be missing: then nothing is begun
        annotations[CREATING] = ABOUT_TO
    labels = labels_for(snapshot.claim, source.volume_name)
    return Record(
        meta=Meta(name=facts.record_name, annotations=annotations, labels=labels),
        ref=ref_of(snapshot),
        driver=source.driver,
        volume=source.volume.handle,
        volume_name=source.volume_name,
        volume_mode=source.mode,
        policy=found.policy,
        class_name=found.name,
        node=source.volume.node,
        secret=secret,
    )


def _is_settled(facts: SnapshotFacts, source: SourceVolume) -> bool:
    """Whether nothing will be booked before the cut: CSI tells nothing of what is in a volume, so its capacity stays. A sidecar
    may not book, and waits for the word of a process that may."""
    volume, driver = facts.context.volume, source.driver
    tells_nothing = volume is not None and volume.spec.csi is not None and driver != ENGINES
    return tells_nothing and facts.settings.drivers.get(driver) == "here" and is_paid_whole(facts.snapshot.meta)


def _secret(facts: SnapshotFacts, found: SnapshotClass) -> Ref | None:
    driver_parameters(found.parameters, roles=SNAPSHOT_ROLES)
    meta = facts.snapshot.meta
    variables = snapshot_variables(namespace=meta.namespace, name=meta.name, record=facts.record_name)
    return secret_of(found.parameters, SNAPSHOTTER, variables=variables)


def _recorded(facts: SnapshotFacts) -> SnapshotPlan:
    """A record is there, or was: the snapshot says what the record says."""
    snapshot, record = facts.snapshot, facts.record
    if record is None:
        lost = Problem("RecordMissing", f"{snapshot.state.record} is gone, and with it whatever it stood for")
        return SnapshotPlan(state=replace(snapshot.state, ready=False, problem=lost, waiting=None))
    if problem := misbound(record, snapshot):
        return SnapshotPlan(state=State(problem=problem), release=True, driver=record.driver)
    plan = SnapshotPlan(
        protect=True,
        labels=labels_for(snapshot.claim, record.volume_name),
        stamps=stamps_on(record.meta),
        hold_claim=in_progress(snapshot, record),
        state=_mirrored(facts, record),
        driver=record.driver,
    )
    return _with_other_class(facts, record, plan) if wants_other_class(snapshot, record) else plan


def wants_other_class(snapshot: Snapshot, record: Record) -> bool:
    """Whether the snapshot was edited to name another class, and nothing can have been made with the one of the record."""
    changed = bool(snapshot.class_name) and snapshot.class_name != record.class_name
    return changed and not (record.handle or record.begun or record.imported)


def _with_other_class(facts: SnapshotFacts, record: Record, plan: SnapshotPlan) -> SnapshotPlan:
    source = find_source_volume(facts.snapshot, facts.context)
    if isinstance(source, Problem):
        return plan
    found = find_class(facts.snapshot, source, context=facts.context, classes=facts.classes, defaults=facts.defaults)
    if isinstance(found, SnapshotClass):
        try:
            secret = _secret(facts, found)
            return replace(plan, reclass=replace(record, class_name=found.name, policy=found.policy, secret=secret))
        except BadInput as error:
            found = Problem("ClassInvalid", f"class {found.name}: {error}")
    return replace(plan, state=State(record=record.meta.name, problem=found))


def _mirrored(facts: SnapshotFacts, record: Record) -> State:
    state = record.state
    problem = None if state.ready else state.problem  # what is wrong with a record that is ready is not its snapshot's
    copying = Problem(COPYING, record.progress) if record.progress else None
    waiting = None if state.cut or problem else facts.waiting or copying or CREATING_NOW
    return replace(state, record=record.meta.name, handle="", problem=problem, waiting=waiting)


def _imported(facts: SnapshotFacts) -> SnapshotPlan:
    snapshot, record = facts.snapshot, facts.record
    if record is None:
        wanted = snapshot.imported_record
        return SnapshotPlan(
            state=State(problem=Problem("RecordMissing", f"{wanted} does not exist; an administrator makes it"))
        )
    if not record.imported:
        problem = Problem(
            "RecordMismatch", f"{record.meta.name} was made for a snapshot of a volume; an import needs one that names a handle"
        )
        return SnapshotPlan(state=State(problem=problem), driver=record.driver)
    if problem_found := misbound(record, snapshot):
        return SnapshotPlan(state=State(problem=problem_found), release=True, driver=record.driver)
    bind = None if record.ref.uid else ref_of(snapshot)
    return SnapshotPlan(protect=True, bind=bind, state=_mirrored(facts, record), driver=record.driver)


def _deleting(facts: SnapshotFacts) -> SnapshotPlan:
    """The storage system's snapshot first, then the record, then this. What is not bound to it is not touched.

    What was shared does not wait for claims that nothing was begun for: its administrator takes it back, and whoever has it
    could keep it for ever by a claim that is never filled."""
    snapshot, record = facts.snapshot, facts.record
    if IN_GROUP in snapshot.meta.finalizers:
        return _member(snapshot)
    if record is None or not refers_to(record, snapshot):
        return SnapshotPlan(release=True)
    if facts.restoring:
        claims = ", ".join(facts.restoring)
        busy = Problem("SnapshotInUse", f"claim {claims} is being filled from it; it goes as soon as that is done or given up")
        return SnapshotPlan(state=replace(snapshot.state, problem=busy), driver=record.driver)
    if facts.waiting_claims and _has_data(record) and not was_shared(record):
        return SnapshotPlan(state=replace(snapshot.state, problem=_awaited(facts.waiting_claims)), driver=record.driver)
    if record.policy == "Retain":
        return SnapshotPlan(release=True, driver=record.driver)
    problem = record.state.problem if is_deleting(record.meta) else None
    said = replace(snapshot.state, problem=problem) if problem else None
    return SnapshotPlan(delete_record=not is_deleting(record.meta), state=said, driver=record.driver)


def _member(snapshot: Snapshot) -> SnapshotPlan:
    """Of a group that stands: it stays until that goes. Its data does, too."""
    if not snapshot.state.ready:
        return NOTHING
    group = group_of(snapshot.meta)
    message = f"it is a member of VolumeGroupSnapshot {group}, and goes with that: delete the group"
    return SnapshotPlan(state=replace(snapshot.state, problem=Problem("SnapshotInGroup", message)))


def _has_data(record: Record) -> bool:
    """Whether it is worth waiting for. A snapshot that was not taken yet, or has failed, fills no claim."""
    return bool(record.handle) and not is_deleting(record.meta) and (record.state.ready or record.state.problem is None)


def _awaited(claims: Sequence[str]) -> Problem:
    one = len(claims) == 1
    who = f"claim {claims[0]} is" if one else f"claims {', '.join(claims)} are"
    return Problem(
        "SnapshotInUse",
        f"{who} to be filled from it; it goes once {'it is' if one else 'they are'}, or {'is' if one else 'are'} deleted",
    )
