"""What is planned for a snapshot, in every state of it and of its record."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.snapshots.charged_api import stamp
from tests.unit.snapshots.objects import DELETED, DRIVER, claim, record, snapshot, snapshot_class, storage_class, volume
from ullage.kube.builtin import core
from ullage.ledger.charging.methods import CAPACITY
from ullage.ledger.charging.stamps import ESTIMATED_BY, STAMP
from ullage.snapshots.controllers.snapshot_bind_rules import (
    CREATING_NOW,
    NOTHING,
    SnapshotFacts,
    SnapshotPlan,
    is_anothers,
    is_orphan,
    may_be_anothers,
    plan_snapshot,
)
from ullage.snapshots.model import CLAIM_LABEL, CREATING, SOURCE, VOLUME_LABEL, Problem, Record, Ref, Snapshot, State
from ullage.snapshots.settings import Settings
from ullage.snapshots.source_volume import ClaimContext

CONTEXT = ClaimContext(claim=claim(), volume=volume(), storage_class=storage_class())
MANAGED = Settings(drivers={DRIVER: "here"})
THEIR_MARK = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
CUT = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)
DONE = State(handle="h-1", cut=CUT, ready=True, restore_size=1024)
FOREIGN = core.CsiVolumeSource(driver="theirs.example.com", volume_handle="vol-9")
NOTED = {"annotations": {"ullage.io/driver": DRIVER}}
BUSY = Problem("WaitingForTurn", "one at a time")


def plan(**changed: Any) -> SnapshotPlan:
    return plan_snapshot(facts_of(**changed))


def facts_of(**changed: Any) -> SnapshotFacts:
    given: dict[str, Any] = {
        "snapshot": snapshot(),
        "record_name": "snapcontent-snap-uid",
        "context": CONTEXT,
        "defaults": True,
    }
    given |= {"classes": [snapshot_class()], "settings": MANAGED}
    return SnapshotFacts(**(given | changed))


class TestBegin:
    def test_everything_is_held_before_the_record_is_made(self) -> None:
        made = plan()
        assert made.protect
        assert made.hold_claim
        assert made.class_name == "daily"
        assert made.labels == {CLAIM_LABEL: "db", VOLUME_LABEL: "pv-1"}
        assert made.state == State(record="snapcontent-snap-uid", waiting=CREATING_NOW)

    def test_the_record_says_what_is_about_to_be_asked(self) -> None:
        made = plan().create_record
        assert made is not None
        assert (made.meta.name, made.ref) == ("snapcontent-snap-uid", Ref("team", "snap", "snap-uid"))
        assert (made.driver, made.volume, made.class_name, made.policy) == (DRIVER, "vol-1", "daily", "Delete")
        stamps = {"ullage.io/source-class": "fast", "ullage.io/source-volume-mode": "Filesystem"}
        assert made.meta.annotations == {CREATING: "true", SOURCE: "vol-1", **stamps}

    def test_who_waits_for_its_turn_is_not_marked_as_begun(self) -> None:
        made = plan(waiting=BUSY)
        assert made.create_record is not None
        assert not made.create_record.begun
        assert made.state == State(record="snapcontent-snap-uid", waiting=BUSY)

    @pytest.mark.parametrize(
        ("changed", "begun"),
        [
            pytest.param({}, True, id="a CSI driver that is called from here"),
            pytest.param({"settings": Settings(drivers={DRIVER: "sidecar"})}, False, id="a sidecar may not book"),
            pytest.param({"waiting": BUSY}, False, id="another snapshot has its turn"),
            pytest.param({"hooked": True}, False, id="commands are run before the cut"),
        ],
    )
    def test_one_that_has_the_capacity_booked_is_marked_at_once(self, changed: dict[str, Any], *, begun: bool) -> None:
        paid = {STAMP: stamp(1024), ESTIMATED_BY: CAPACITY}
        made = plan(snapshot=snapshot(meta={"annotations": paid}), **changed).create_record
        assert made is not None
        assert made.begun is begun

    def test_the_class_decides_whether_the_data_outlives_the_snapshot(self) -> None:
        made = plan(classes=[snapshot_class(policy="Retain")]).create_record
        assert made is not None
        assert made.policy == "Retain"

    def test_a_refusal_holds_nothing(self) -> None:
        context = ClaimContext(storage_class=storage_class())
        refused = plan(context=context, snapshot=snapshot(class_name="daily", meta=NOTED))
        assert (refused.protect, refused.hold_claim, refused.create_record, refused.release) == (False, False, None, True)
        assert refused.state is not None
        assert refused.state.problem is not None
        assert refused.state.problem.reason == "ClaimNotFound"


class TestWhose:
    def test_a_driver_that_nobody_set_us_to_manage_is_left_alone(self) -> None:
        assert plan(settings=Settings(drivers={"other.example.com": "here"})) == NOTHING

    def test_what_no_driver_can_be_told_of_is_left_alone_beside_another_snapshotter(self) -> None:
        assert plan(context=ClaimContext(), classes=()) == NOTHING

    def test_where_nobody_else_answers_we_do(self) -> None:
        alone = Settings(drivers={"other.example.com": "here"}, alone=True)
        refused = plan(settings=alone).state
        assert refused is not None
        text = "no backend is set up for driver csi.example.com (set up: other.example.com)"
        assert refused.problem == Problem("DriverNotManaged", text)

    def test_a_record_of_another_driver_is_not_touched_even_when_its_snapshot_goes(self) -> None:
        theirs = record(driver="other.example.com", state=DONE)
        assert plan(snapshot=snapshot(meta={"deletion_timestamp": DELETED}), record=theirs) == NOTHING


class TestRecorded:
    def test_a_snapshot_says_what_its_record_says(self) -> None:
        made = plan(record=record(state=DONE))
        assert made.state == State(record="snapcontent-snap-uid", cut=CUT, ready=True, restore_size=1024)
        assert not made.hold_claim
        assert made.create_record is None

    def test_the_claim_is_held_until_the_cut(self) -> None:
        assert plan(record=record(begun=True)).hold_claim
        assert not plan(record=record(state=replace(DONE, ready=False))).hold_claim

    def test_an_error_goes_when_it_is_over(self) -> None:
        old = State(record="snapcontent-snap-uid", problem=Problem("DriverRetrying", "busy"))
        assert plan(snapshot=snapshot(state=old), record=record(state=DONE)).state == State(
            record="snapcontent-snap-uid", cut=CUT, ready=True, restore_size=1024
        )

    def test_what_is_wrong_with_a_record_that_is_ready_is_not_its_snapshots(self) -> None:
        shown = plan(record=record(state=replace(DONE, problem=Problem("InUse", "…")))).state
        assert shown is not None
        assert shown.problem is None

    def test_a_record_that_vanished_is_said_and_not_made_anew(self) -> None:
        said = State(record="snapcontent-snap-uid", cut=CUT, ready=True, restore_size=1024)
        made = plan(snapshot=snapshot(state=said), settings=replace(MANAGED, alone=True))
        assert made.create_record is None
        assert made.state is not None
        assert not made.state.ready
        text = "snapcontent-snap-uid is gone, and with it whatever it stood for"
        assert made.state.problem == Problem("RecordMissing", text)


class TestBesideOthers:
    """Another snapshotter that answers for every driver writes the same objects."""

    UNBOUND = replace(CONTEXT, claim=claim(phase="Pending"), volume=None)
    THEIRS = State(problem=Problem("", "Failed to create snapshot content with error the PVC is not yet bound"))
    OURS = State(problem=Problem("ClaimNotFound", "claim team/db does not exist; create it, or snapshot another claim"))
    ALONE = replace(MANAGED, alone=True)

    @pytest.mark.parametrize(
        ("state", "settings", "told"),
        [
            pytest.param(State(), MANAGED, "ClaimNotBound", id="where nobody has told anything, we do"),
            pytest.param(OURS, MANAGED, "ClaimNotBound", id="our own words are put right"),
            pytest.param(THEIRS, MANAGED, None, id="another's words stay"),
            pytest.param(THEIRS, ALONE, "ClaimNotBound", id="unless nobody else is there"),
        ],
    )
    def test_an_error_is_told_by_one_of_them(self, state: State, settings: Settings, told: str | None) -> None:
        made = plan(snapshot=snapshot(state=state), context=self.UNBOUND, settings=settings).state
        assert (made.problem.reason if made is not None and made.problem is not None else None) == told

    def test_what_a_record_says_is_shown_whoever_wrote_something_else(self) -> None:
        refused = Problem("DriverError", "no pool")
        made = plan(snapshot=snapshot(state=self.THEIRS), record=record(state=State(problem=refused))).state
        assert made is not None
        assert made.problem == refused

    def test_finalizers_that_we_did_not_put_there_stay(self) -> None:
        assert plan(context=self.UNBOUND).release is False
        assert plan(context=self.UNBOUND, snapshot=snapshot(meta=NOTED)).release is True
        assert plan(context=self.UNBOUND, settings=self.ALONE).release is True


ORPHANS: list[tuple[str, Record, Snapshot | None, bool]] = [
    ("its snapshot is gone", record(), None, True),
    ("a later snapshot has the name", record(), snapshot(meta={"uid": "later"}), True),
    ("its snapshot is there", record(), snapshot(), False),
    ("its snapshot is going", record(), snapshot(meta={"deletion_timestamp": DELETED}), False),
    ("it has a handle", record(state=DONE), None, False),
    ("it has our mark", record(begun=True), None, False),
    ("it has another's mark", record(meta={"annotations": {THEIR_MARK: "yes"}}), None, False),
    ("it was made by hand", record(imported="h-9"), None, False),
    ("it was never bound", record(ref=Ref("team", "snap")), None, False),
    ("it is going already", record(meta={"deletion_timestamp": DELETED}), None, False),
    ("its driver is another's", record(driver="theirs.example.com"), None, False),
]


@pytest.mark.parametrize(("found", "seen", "orphan"), [row[1:] for row in ORPHANS], ids=[row[0] for row in ORPHANS])
def test_a_record_is_removed_only_if_it_stands_for_nothing(found: Record, seen: Snapshot | None, orphan: bool) -> None:
    assert is_orphan(found, seen, MANAGED) is orphan


OTHERS = [
    ("of another namespace", Ref("other", "snap", "snap-uid")),
    ("of another name", Ref("team", "other", "snap-uid")),
    ("of an earlier snapshot of the name", Ref("team", "snap", "old-uid")),
    ("without a uid, though we made it", Ref("team", "snap")),
]


class TestBinding:
    @pytest.mark.parametrize("ref", [row[1] for row in OTHERS], ids=[row[0] for row in OTHERS])
    def test_a_record_gives_nothing_to_a_snapshot_and_whose_it_is_is_not_told(self, ref: Ref) -> None:
        made = plan(snapshot=snapshot(meta=NOTED), record=record(ref=ref, state=DONE))
        text = "snapcontent-snap-uid belongs to another snapshot, not to this one"
        assert made.state == State(problem=Problem("RecordMisbound", text))
        assert made.release

    @pytest.mark.parametrize("ref", [row[1] for row in OTHERS], ids=[row[0] for row in OTHERS])
    def test_a_snapshot_that_goes_takes_no_record(self, ref: Ref) -> None:
        going = snapshot(meta={"deletion_timestamp": DELETED}, state=State(record="snapcontent-snap-uid"))
        assert plan(snapshot=going, record=record(ref=ref, state=DONE)) == SnapshotPlan(release=True)


class TestImport:
    WANTED = snapshot(imported_record="by-hand")

    def test_a_record_that_names_the_snapshot_is_bound_to_it(self) -> None:
        made = plan(snapshot=self.WANTED, record=record(imported="h-9", ref=Ref("team", "snap")))
        assert made.bind == Ref("team", "snap", "snap-uid")
        assert made.protect

    def test_a_bound_one_is_not_bound_again(self) -> None:
        made = plan(snapshot=self.WANTED, record=record(imported="h-9", state=replace(DONE, handle="h-9")))
        assert made.bind is None
        assert made.state is not None
        assert made.state.ready

    def test_a_record_that_is_not_there_is_waited_for(self) -> None:
        made = plan(snapshot=self.WANTED, settings=replace(MANAGED, alone=True)).state
        assert made is not None
        assert made.problem == Problem("RecordMissing", "by-hand does not exist; an administrator makes it")

    def test_a_record_of_a_volume_is_none_to_import(self) -> None:
        made = plan(snapshot=self.WANTED, record=record(meta={"name": "by-hand"})).state
        assert made is not None
        text = "by-hand was made for a snapshot of a volume; an import needs one that names a handle"
        assert made.problem == Problem("RecordMismatch", text)

    def test_a_record_for_another_snapshot_is_not_taken(self) -> None:
        made = plan(snapshot=self.WANTED, record=record(imported="h-9", ref=Ref("other", "snap")))
        assert (made.bind, made.protect) == (None, False)
        assert made.state is not None
        assert made.state.problem is not None
        assert made.state.problem.reason == "RecordMisbound"


class TestDelete:
    GOING = snapshot(meta={"deletion_timestamp": DELETED}, state=State(record="snapcontent-snap-uid", ready=True))

    def test_the_record_goes_first(self) -> None:
        made = plan(snapshot=self.GOING, record=record(state=DONE))
        assert (made.delete_record, made.release) == (True, False)

    def test_and_is_asked_for_once(self) -> None:
        going = record(state=DONE, meta={"deletion_timestamp": DELETED})
        made = plan(snapshot=self.GOING, record=going)
        assert (made.delete_record, made.release) == (False, False)

    def test_what_keeps_the_record_shows_on_the_snapshot(self) -> None:
        stuck = Problem("DriverRetrying", "csi.example.com does not answer")
        going = record(state=replace(DONE, problem=stuck), meta={"deletion_timestamp": DELETED})
        made = plan(snapshot=self.GOING, record=going).state
        assert made is not None
        assert made.problem == stuck

    def test_a_retained_record_stays(self) -> None:
        made = plan(snapshot=self.GOING, record=record(policy="Retain", state=DONE))
        assert (made.delete_record, made.release) == (False, True)

    def test_without_a_record_it_goes(self) -> None:
        assert plan(snapshot=self.GOING, settings=replace(MANAGED, alone=True)) == SnapshotPlan(release=True)

    def test_a_claim_that_is_being_filled_from_it_is_waited_for(self) -> None:
        made = plan(snapshot=self.GOING, record=record(state=DONE), restoring=("team/copy",))
        assert (made.delete_record, made.release) == (False, False)
        assert made.state is not None
        text = "claim team/copy is being filled from it; it goes as soon as that is done or given up"
        assert made.state.problem == Problem("SnapshotInUse", text)

    @pytest.mark.parametrize(
        ("seen", "made"),
        [
            pytest.param({}, SnapshotPlan(release=True), id="nothing names the driver any more"),
            pytest.param(
                {"context": replace(CONTEXT, volume=volume(csi=FOREIGN), storage_class=None)},
                SnapshotPlan(release=True),
                id="the claim of that name is another driver's by now",
            ),
            pytest.param(
                {"record": record(ref=Ref("other", "snap", "uid-9"), driver="theirs.example.com")},
                SnapshotPlan(release=True),
                id="the record that it names is another snapshot's",
            ),
            pytest.param(
                {"record": record(driver="theirs.example.com", state=DONE)},
                NOTHING,
                id="its record is there, and belongs to a driver of others",
            ),
        ],
    )
    def test_beside_others_our_note_on_it_tells_that_its_finalizers_are_ours(
        self, seen: dict[str, Any], made: SnapshotPlan
    ) -> None:
        going = snapshot(meta={"deletion_timestamp": DELETED, "annotations": {"ullage.io/driver": DRIVER}})
        assert plan(**({"snapshot": going, "context": ClaimContext()} | seen)) == made
        assert plan(**({"snapshot": self.GOING, "context": ClaimContext()} | seen)).release is False

    def test_a_claim_that_still_waits_for_it_is_waited_for(self) -> None:
        made = plan(snapshot=self.GOING, record=record(state=DONE), waiting_claims=("team/copy", "team/two"))
        assert (made.delete_record, made.release) == (False, False)
        assert made.state is not None
        text = "claims team/copy, team/two are to be filled from it; it goes once they are, or are deleted"
        assert made.state.problem == Problem("SnapshotInUse", text)
        assert made.state.ready

    def test_what_was_shared_is_taken_back_though_a_claim_still_waits_for_it(self) -> None:
        """Otherwise whoever has it could keep it for ever, by a claim that is never filled."""
        given = record(state=DONE, imported="h-1", meta={"annotations": {"ullage.io/shared-by": "grant"}})
        made = plan(snapshot=self.GOING, record=given, waiting_claims=("team/copy",))
        assert (made.delete_record, made.state) == (True, None)
        made = plan(snapshot=self.GOING, record=given, waiting_claims=("team/copy",), restoring=("team/other",))
        assert not made.delete_record
        assert made.state is not None
        text = "claim team/other is being filled from it; it goes as soon as that is done or given up"
        assert made.state.problem == Problem("SnapshotInUse", text)

    @pytest.mark.parametrize(
        "state",
        [
            pytest.param(State(), id="that was not taken yet"),
            pytest.param(State(problem=Problem("DriverError", "no")), id="that was refused"),
            pytest.param(replace(DONE, ready=False, problem=Problem("SnapshotLost", "gone")), id="whose data is lost"),
        ],
    )
    def test_a_claim_that_waits_in_vain_does_not_hold_a_snapshot(self, state: State) -> None:
        made = plan(snapshot=self.GOING, record=record(state=state), waiting_claims=("team/copy",))
        assert made.delete_record


class TestOtherSnapshotters:
    @pytest.mark.parametrize(
        ("changed", "expected"),
        [
            pytest.param({}, True, id="a CSI volume"),
            pytest.param({"settings": replace(MANAGED, alone=True)}, False, id="there is no other one"),
            pytest.param({"defaults": False}, False, id="of the prototype, which nobody else knows"),
            pytest.param({"record": record()}, False, id="its record is there"),
            pytest.param({"snapshot": snapshot(class_name="none")}, False, id="nothing can be made"),
        ],
    )
    def test_a_record_may_be_anothers_to_make(self, changed: dict[str, Any], expected: bool) -> None:
        facts = facts_of(**changed)
        assert may_be_anothers(facts, plan_snapshot(facts)) is expected

    def test_a_volume_that_is_no_csi_volume_is_ours_alone(self) -> None:
        bare = replace(CONTEXT, volume=volume(csi=None))
        assert not may_be_anothers(facts_of(context=bare), SnapshotPlan(create_record=record()))

    @pytest.mark.parametrize(
        ("found", "expected"),
        [
            pytest.param(record(), True, id="without the source that ours have"),
            pytest.param(record(meta={"annotations": {SOURCE: "vol-1"}}), False, id="ours"),
            pytest.param(record(imported="handle"), False, id="an import, which people make"),
            pytest.param(record(ref=Ref("team", "snap")), False, id="not bound yet: made by hand"),
        ],
    )
    def test_whose_a_record_is(self, found: Record, expected: bool) -> None:
        assert is_anothers(found) is expected

    def test_what_we_make_is_never_taken_for_anothers(self) -> None:
        made = plan().create_record
        assert made is not None
        assert not is_anothers(made)
