"""What is decided about snapshots that are cut together, whatever holds them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ullage.kube.kinds import Meta, OwnerReference
from ullage.snapshots.cut.rules import (
    Member,
    Whole,
    all_measured,
    apart,
    damage,
    failure_of,
    gone,
    missing,
    new_member,
    undone,
    waiting,
)
from ullage.snapshots.gate import Estimate
from ullage.snapshots.model import CUT, GO, HOLD, Problem, Snapshot, State

SET = Whole("set", parts="disks", awaited=frozenset({"Busy"}))
OWNER = OwnerReference(api_version="v1", kind="Set", name="one", uid="uid-one", controller=True)
AT, OLD = "2026-01-01T00:00:05.000000Z", "2026-01-01T00:00:00.000000Z"
CUT_AT = datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC)
BUSY, FULL = Problem("Busy", "the array is busy"), Problem("DriverError", "the array is full")
LOST = Problem("SnapshotLost", "the array has it no more")


def member(claim: str = "a", *, word: str = HOLD, at: str | None = AT, fresh: bool = True, **state: Any) -> Member:
    """One that is there, held, and measured a moment ago."""
    meta = Meta(name=f"snap-{claim}", namespace="team", uid=f"uid-{claim}", annotations={CUT: word}, owner_references=(OWNER,))
    return replace(
        planned(claim),
        snapshot=Snapshot(meta=meta, claim=claim, state=State(**state)),
        estimate=Estimate(5, at) if at is not None else None,
        fresh=fresh,
    )


def planned(claim: str = "a") -> Member:
    """One that is not there."""
    return Member(whole=SET, name=f"snap-{claim}", claim=claim, owner="uid-one")


def with_meta(one: Member, **changed: Any) -> Member:
    assert one.snapshot is not None
    fields = {name: getattr(one.snapshot.meta, name) for name in one.snapshot.meta.__struct_fields__}
    return replace(one, snapshot=replace(one.snapshot, meta=Meta(**(fields | changed))))


def of_claim(one: Member, claim: str) -> Member:
    assert one.snapshot is not None
    return replace(one, snapshot=replace(one.snapshot, claim=claim))


GOING = with_meta(member(), deletion_timestamp="2026-01-01T00:05:00Z")
ORPHAN = with_meta(member(), owner_references=())


# --- a member --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "mine"),
    [
        pytest.param(planned(), False, id="nothing is there"),
        pytest.param(member(), True, id="of this owner and for this claim"),
        pytest.param(ORPHAN, False, id="of no owner"),
        pytest.param(replace(member(), owner="uid-two"), False, id="of another owner"),
        pytest.param(of_claim(member(), "b"), False, id="of this owner and for another claim"),
        pytest.param(GOING, True, id="one that is going is this owner's still"),
    ],
)
def test_a_member_is_known_by_owner_and_claim(one: Member, mine: bool) -> None:
    assert one.mine is mine


@pytest.mark.parametrize(
    ("one", "failure"),
    [
        pytest.param(planned(), None, id="one that is not there is made"),
        pytest.param(member(), None, id="one that waits"),
        pytest.param(member(cut=CUT_AT, ready=True), None, id="one that is stored"),
        pytest.param(member(problem=BUSY), None, id="a problem that may pass is waited for"),
        pytest.param(member(problem=FULL), FULL, id="any other is final"),
        pytest.param(
            ORPHAN,
            Problem("SnapshotNameTaken", "VolumeSnapshot snap-a exists already, and was not made for this set"),
            id="another's snapshot has the name",
        ),
        pytest.param(
            GOING,
            Problem("SnapshotDeleted", "VolumeSnapshot snap-a was deleted before the set was complete"),
            id="somebody has deleted it",
        ),
        pytest.param(
            with_meta(member(problem=FULL), owner_references=()),
            Problem("SnapshotNameTaken", "VolumeSnapshot snap-a exists already, and was not made for this set"),
            id="what is wrong with another's snapshot is not told",
        ),
    ],
)
def test_what_is_final_for_a_member(one: Member, failure: Problem | None) -> None:
    assert one.failure == failure


@pytest.mark.parametrize(
    ("one", "state"),
    [
        pytest.param(planned(), (False, False, False), id="not there"),
        pytest.param(member(), (False, False, False), id="held"),
        pytest.param(member(word=f"{GO}{AT}"), (True, True, False), id="told about its last estimate"),
        pytest.param(member(word=f"{GO}{OLD}"), (True, False, False), id="told, and measured again since"),
        pytest.param(member(word=f"{GO}{AT}", cut=CUT_AT), (True, True, True), id="cut"),
    ],
)
def test_how_far_a_member_is(one: Member, state: tuple[bool, bool, bool]) -> None:
    assert (one.told, one.released, one.cut) == state


def test_a_new_member_is_held_and_belongs_to_its_owner() -> None:
    made = new_member(planned(), "team", owner=OWNER, finalizers=("hold/it",))
    assert (made.metadata.namespace, made.metadata.name) == ("team", "snap-a")
    assert made.metadata.annotations == {CUT: HOLD}
    assert made.metadata.owner_references == (OWNER,)
    assert made.metadata.finalizers == ("hold/it",)
    assert made.spec.source.persistent_volume_claim_name == "a"


# --- the gate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "waits", "open"),
    [
        pytest.param(member(), True, True, id="measured a moment ago: it may be told"),
        pytest.param(member(at=None), True, False, id="not measured yet"),
        pytest.param(member(fresh=False), True, False, id="measured too long ago"),
        pytest.param(member(word=f"{GO}{OLD}"), True, True, id="one that has grown since it was told is told again"),
        pytest.param(member(word=f"{GO}{AT}"), False, True, id="told about this estimate"),
        pytest.param(member(at=None, cut=CUT_AT), False, True, id="one that is cut needs no estimate"),
    ],
)
def test_who_is_told_and_when(one: Member, waits: bool, open: bool) -> None:
    members = [member("b"), one]
    assert (one in waiting(members)) is waits
    assert all_measured(waiting(members)) is open, "one that is not measured keeps all from being cut"


def test_what_is_missing_is_made_whatever_the_others_are() -> None:
    assert missing([member("a"), planned("b"), ORPHAN]) == (planned("b"),)


# --- failure and undo ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "cutting", "failure"),
    [
        pytest.param([member("a"), member("b", problem=BUSY)], True, None, id="none has failed"),
        pytest.param([], True, None, id="there are none"),
        pytest.param(
            [member("a"), member("b", problem=FULL)],
            False,
            Problem("DriverError", "claim b: the array is full"),
            id="one fails all",
        ),
        pytest.param(
            [member("a", problem=FULL), member("b"), member("c", problem=LOST), planned("d")],
            True,
            Problem("DriverError", "claim a: the array is full; 2 more of its 4 disks failed, too"),
            id="the first is told, and the others are counted",
        ),
        pytest.param([planned("a"), member("b")], False, None, id="one that goes before the cut is made again"),
        pytest.param(
            [planned("a"), member("b")],
            True,
            Problem("SnapshotMissing", "claim a: VolumeSnapshot snap-a is gone, and the others may be cut already"),
            id="one that goes when the others may be cut fails all",
        ),
    ],
)
def test_what_is_final_for_one_is_final_for_all(members: list[Member], cutting: bool, failure: Problem | None) -> None:
    assert failure_of(members, lambda one: gone(one, cutting=cutting)) == failure


def test_what_is_undone_is_what_was_made_for_the_whole() -> None:
    assert undone([member("b"), planned("c"), ORPHAN, GOING, of_claim(member(), "d")]) == (member("b"), GOING)


# --- afterwards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        pytest.param(
            [member(problem=LOST)],
            Problem("SnapshotLost", "claim a: VolumeSnapshot snap-a has lost its data"),
            id="the storage system has it no more",
        ),
        pytest.param(
            [planned()], Problem("SnapshotMissing", "claim a: VolumeSnapshot snap-a is not there"), id="it is not there"
        ),
        pytest.param(
            [planned("a"), member("b", problem=LOST), planned("c")],
            Problem("SnapshotMissing", "claim a: VolumeSnapshot snap-a is not there; 2 more are like it"),
            id="the first is told, and the others are counted",
        ),
    ],
)
def test_what_has_become_of_a_whole_that_was_complete(broken: list[Member], problem: Problem) -> None:
    assert damage(broken, otherwise="is not there") == problem


@pytest.mark.parametrize(
    ("seconds", "between"),
    [
        pytest.param([], 0, id="no moment is known"),
        pytest.param([7], 0, id="one alone"),
        pytest.param([7, 3, 5], 4, id="from the first to the last, in whatever order"),
    ],
)
def test_how_far_apart_cuts_are(seconds: list[int], between: int) -> None:
    moments = [CUT_AT + timedelta(seconds=one) for one in seconds]
    assert apart(moments) == timedelta(seconds=between)
