"""Pure helpers on objects: conditions, owners, finalizers, names, changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage import names
from ullage.kube import objects
from ullage.kube.kinds import Kind, Meta, Object, Value
from ullage.kube.objects import Condition, Conditions, name_for, same, set_condition

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
UID = "3e0a0128-b231-4755-bc76-38450b2e2594"
TANKS = Kind("x.example.com", "v1", "Tank", "tanks", Object)
ROOMS = Kind("x.example.com", "v1", "Room", "rooms", Object, namespaced=False)


def ready(status: bool | None = True, *, at: datetime = NOON, generation: int = 1, message: str = "", **old: Any) -> Any:
    said: dict[str, Any] = {"status": status, "reason": "Filled", "message": message, "generation": generation, "now": at}
    return set_condition(old.get("old", ()), "Ready", **said)


# --- conditions ------------------------------------------------------------------------------------------------------


def test_a_new_condition_is_appended_with_the_time_it_was_set() -> None:
    other = Condition(type="Other", status="False")
    assert ready(old=(other,)) == (
        other,
        Condition(
            type="Ready", status="True", reason="Filled", observed_generation=1, last_transition_time="2026-01-01T12:00:00Z"
        ),
    )


def test_nothing_new_is_the_very_same_value() -> None:
    before = ready()
    assert ready(at=LATER, old=before) is before


@pytest.mark.parametrize(
    ("change", "since"),
    [
        pytest.param({"message": "still"}, "2026-01-01T12:00:00Z", id="another message keeps the transition time"),
        pytest.param({"generation": 2}, "2026-01-01T12:00:00Z", id="another generation keeps the transition time"),
        pytest.param({"status": False}, "2026-01-01T13:00:00Z", id="another status moves the transition time"),
        pytest.param({"status": None}, "2026-01-01T13:00:00Z", id="not to know moves the transition time"),
    ],
)
def test_the_transition_time_moves_with_the_status_only(change: dict[str, Any], since: str) -> None:
    before = ready()
    after = ready(**{"at": LATER, **change}, old=before)
    assert after is not before
    assert [one.last_transition_time for one in after] == [since]


def test_a_condition_keeps_its_place_and_loses_its_doubles() -> None:
    doubled = (*ready(), Condition(type="Other", status="False"), *ready(False))
    assert [(one.type, one.status) for one in ready(None, old=doubled)] == [("Ready", "Unknown"), ("Other", "False")]


def test_a_condition_of_somebody_who_gave_no_time_gets_one() -> None:
    assert ready(old=(Condition(type="Ready", status="True"),))[0].last_transition_time == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize("reason", ["", "not a word", "Ends-", "9Lives", "Ünique"])
def test_a_reason_that_the_api_would_refuse_is_refused(reason: str) -> None:
    with pytest.raises(ValueError, match="condition Ready: the reason"):
        set_condition((), "Ready", status=True, reason=reason, message="", generation=1, now=NOON)


def test_a_message_is_cut_to_what_the_api_takes() -> None:
    assert len(ready(message="x" * 40000)[0].message) == objects.MESSAGE_LIMIT


def test_a_condition_holds_only_for_the_generation_it_was_said_about() -> None:
    conditions: Conditions = ready(generation=3)
    assert objects.is_true(conditions, "Ready")
    assert objects.is_true(conditions, "Ready", generation=3)
    assert not objects.is_true(conditions, "Ready", generation=4)
    assert not objects.is_true(conditions, "Other")
    assert not objects.is_true(ready(False), "Ready")


def test_everything_of_a_condition_is_sent_and_little_is_demanded() -> None:
    assert set(msgspec.to_builtins(Condition(type="Ready", status="True"))) == {
        "type",
        "status",
        "reason",
        "message",
        "observedGeneration",
        "lastTransitionTime",
    }
    assert msgspec.json.decode(b'{"type":"Ready","status":"True"}', type=Condition).reason == ""


def test_a_dropped_condition_is_gone_and_dropping_nothing_changes_nothing() -> None:
    before = ready()
    assert objects.drop_condition(before, "Ready") == ()
    assert objects.drop_condition(before, "Other") is before


# --- metadata --------------------------------------------------------------------------------------------------------


def test_finalizers_are_added_once_and_taken_away() -> None:
    bare = Meta(name="a", finalizers=("other/one",))
    held = objects.with_finalizer(bare, "ullage.io/x")
    assert held.finalizers == ("other/one", "ullage.io/x")
    assert objects.with_finalizer(held, "ullage.io/x") is held
    assert objects.without_finalizer(held, "ullage.io/x") == bare
    assert objects.without_finalizer(bare, "ullage.io/x") is bare


def test_an_object_is_being_deleted_from_the_moment_it_says_so() -> None:
    assert objects.is_deleting(Meta(deletion_timestamp="2026-01-01T12:00:00Z"))
    assert not objects.is_deleting(Meta())


OWNER = Meta(name="a", namespace="n", uid="1")


def test_an_owner_is_named_as_the_garbage_collector_needs_it() -> None:
    named = objects.owner_reference(TANKS, OWNER, controller=True)
    assert msgspec.to_builtins(named) == {
        "apiVersion": "x.example.com/v1",
        "kind": "Tank",
        "name": "a",
        "uid": "1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    owned = Meta(name="b", namespace="n", owner_references=(named,))
    assert objects.controller_of(owned) == named
    assert objects.is_owned_by(owned, "1")
    assert not objects.is_owned_by(owned, "2")


def test_an_owner_that_does_not_control_blocks_nothing() -> None:
    named = objects.owner_reference(TANKS, OWNER)
    assert set(msgspec.to_builtins(named)) == {"apiVersion", "kind", "name", "uid"}
    assert objects.controller_of(Meta(owner_references=(named,))) is None


def test_an_owner_that_is_not_in_the_api_is_refused() -> None:
    with pytest.raises(ValueError, match="has no uid yet"):
        objects.owner_reference(TANKS, Meta(name="a"))


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_name_with_one_part_that_fits_is_readable() -> None:
    assert name_for("snapcontent", UID) == f"snapcontent-{UID}"
    assert name_for("pv", "a.b") == "pv-a.b"


@pytest.mark.parametrize(
    ("parts", "limit"),
    [
        pytest.param(("snap", "x" * 300), 253, id="too long for a name"),
        pytest.param(("snap", UID, UID), 63, id="too long for a label"),
        pytest.param(("snap", "Upper_Case"), 253, id="letters that names may not have"),
        pytest.param(("snap", "a.b"), 63, id="a dot in a label"),
        pytest.param(("snap", "a", "b"), 253, id="several parts"),
        pytest.param(("snap", "a-0123456789"), 253, id="a part that looks as if it had been hashed"),
        pytest.param(("_", "_"), 253, id="nothing that can stay"),
        pytest.param(("snap", ""), 253, id="an empty part"),
    ],
)
def test_other_names_end_in_a_hash_and_are_valid(parts: tuple[str, ...], limit: int) -> None:
    made = name_for(*parts, limit=limit)
    assert names.LABEL.fullmatch(made)
    assert len(made) <= limit
    assert made.rpartition("-")[2] != parts[-1]
    assert made == name_for(*parts, limit=limit)


@given(st.lists(st.lists(st.text("ab-.", min_size=0, max_size=4), min_size=1, max_size=3), min_size=2, max_size=2))
def test_different_parts_never_share_a_name(pair: list[list[str]]) -> None:
    one, other = pair
    assert (name_for("x", *one) == name_for("x", *other)) == (one == other)


def test_a_name_cannot_be_chosen_to_meet_a_hashed_one() -> None:
    hashed = name_for("x", "A")
    assert name_for("x", hashed.removeprefix("x-")) != hashed


# --- changes ---------------------------------------------------------------------------------------------------------


class Status(Value):
    level: int = 0
    ready: bool = False
    names: tuple[str, ...] = ()
    by_name: Mapping[str, int] = {}
    conditions: Conditions = ()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(Status(), Status(), True, id="equal values"),
        pytest.param(Status(level=0), Status(), True, id="a default that was given"),
        pytest.param(Status(by_name={"a": 1, "b": 2}), Status(by_name={"b": 2, "a": 1}), True, id="another order of keys"),
        pytest.param(Status(names=("a",)), {"names": ["a"]}, True, id="what it reads as in JSON"),
        pytest.param(Status(names=("a", "b")), Status(names=("b", "a")), False, id="another order of items"),
        pytest.param({"a": 1}, {"a": True}, False, id="one is not true"),
        pytest.param(Status(), None, False, id="nothing there yet"),
    ],
)
def test_same_tells_whether_a_write_would_change_anything(old: object, new: object, expected: bool) -> None:
    assert same(old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param(Status(level=1), Status(level=1), None, id="nothing to send"),
        pytest.param(Status(level=1), Status(level=2), {"level": 2}, id="only what changed"),
        pytest.param(Status(level=1, ready=True), Status(level=1), {"ready": None}, id="back to a default is null"),
        pytest.param(
            Status(by_name={"a": 1, "b": 2}), Status(by_name={"a": 3}), {"byName": {"a": 3, "b": None}}, id="inside maps"
        ),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="one is not true"),
        pytest.param({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}, id="another shape"),
    ],
)
def test_a_merge_patch_holds_the_difference(old: Any, new: Any, patch: Any) -> None:
    assert objects.merge_patch(old, new) == patch
