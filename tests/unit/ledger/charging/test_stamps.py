"""Stamps: what is written on an object by the mutating hook, and what the validating one makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonpatch
import msgspec
import pytest

from tests.unit.ledger.simulated import CUPS, takes
from ullage.errors import UllageError
from ullage.kube.kinds import Meta
from ullage.kube.review import GroupVersionKind, GroupVersionResource, Request, Review, UserInfo
from ullage.ledger.amounts import NOTHING, Cell, Takings
from ullage.ledger.charging.stamps import (
    CHARGED_NAMESPACE,
    STAMP,
    guard_fault,
    guarded,
    read_stamp,
    stamp_fault,
    stamped,
    write_stamp,
)
from ullage.quantity import Quantity

OURS, PERSON = "system:serviceaccount:ullage-system:controller", "jane"
TWO, FIVE = write_stamp(takes(2)), write_stamp(takes(5))
ESTIMATE = takes(2)
ABSENT = object()


def body(stamp: object) -> dict[str, Any]:
    annotations = {"other": "kept"} if stamp is ABSENT else {"other": "kept", STAMP: stamp}
    return {"metadata": {"name": "a", "namespace": "team", "uid": "u", "annotations": annotations}, "spec": {"size": 1}}


def review(new: object, old: object = None, *, user: str = PERSON) -> Review:
    return Review(
        Request(
            uid="review",
            operation="CREATE" if old is None else "UPDATE",
            kind=GroupVersionKind(group=CUPS.group, version=CUPS.version, kind=CUPS.kind),
            resource=GroupVersionResource(group=CUPS.group, version=CUPS.version, resource=CUPS.plural),
            namespace="team",
            user_info=UserInfo(username=user),
            object=msgspec.Raw(msgspec.json.encode(body(new))),
            old_object=msgspec.Raw(b"null" if old is None else msgspec.json.encode(body(old))),
        )
    )


@pytest.mark.parametrize(
    "takings",
    [
        pytest.param(NOTHING, id="nothing"),
        pytest.param(takes(7), id="one account"),
        pytest.param(
            Takings({Cell("snapshots/vm/db", "storage"): Quantity.parse("1Gi"), Cell("all", "storage"): Quantity.parse("3n")}),
            id="several accounts",
        ),
    ],
)
def test_a_stamp_reads_as_it_was_written(takings: Takings) -> None:
    assert read_stamp(Meta(annotations={STAMP: write_stamp(takings)})) == takings


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        pytest.param({}, "metadata.annotations[ullage.io/takes]: it is missing", id="missing"),
        pytest.param({STAMP: "2Gi"}, "metadata.annotations[ullage.io/takes]: ", id="no map"),
        pytest.param({STAMP: '{"a":{"b":1}}'}, "metadata.annotations[ullage.io/takes]: Expected `str`", id="a bare number"),
        pytest.param(
            {STAMP: '{"a":{"b":"-1"}}'},
            "metadata.annotations[ullage.io/takes].a.b -1: an amount is not negative",
            id="less than nothing",
        ),
    ],
)
def test_a_stamp_that_cannot_be_read_names_its_field(annotations: dict[str, str], said: str) -> None:
    with pytest.raises(UllageError) as caught:
        read_stamp(Meta(annotations=annotations))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param(review(ABSENT), TWO, id="a new object gets the estimate"),
        pytest.param(review(FIVE), TWO, id="whatever its author wrote there"),
        pytest.param(review(FIVE, TWO), TWO, id="a person cannot change it"),
        pytest.param(review(ABSENT, FIVE), FIVE, id="nor take it off"),
        pytest.param(review(ABSENT, ABSENT), TWO, id="an object from before there were stamps gets one"),
        pytest.param(review(FIVE, TWO, user=OURS), FIVE, id="our own identity may change it"),
        pytest.param(
            replace(review(FIVE, TWO, user=OURS), cluster="far"), TWO, id="an identity of that name in another cluster may not"
        ),
        pytest.param(review(FIVE, user=OURS), FIVE, id="and bring it along"),
        pytest.param(review(ABSENT, user=OURS), TWO, id="what it does not stamp is estimated"),
    ],
)
def test_the_mutating_hook_stamps(asked: Review, wanted: str) -> None:
    decided = stamped(asked, CUPS, ESTIMATE)
    assert decided.allowed
    after = jsonpatch.apply_patch(asked.object_json(), list(decided.patch))
    assert after["metadata"]["annotations"] == {"other": "kept", STAMP: wanted}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        pytest.param(review(TWO), 200, id="a new object with the estimate"),
        pytest.param(review(FIVE), 429, id="a new object with another: changed behind us, or the estimate has moved"),
        pytest.param(review(ABSENT), 429, id="a new object without any"),
        pytest.param(review(FIVE, FIVE), 200, id="an update that leaves it, whatever would be estimated now"),
        pytest.param(review("garbage", "garbage"), 200, id="an update of what was broken before: it may lose its finalizers"),
        pytest.param(review(TWO, FIVE), 422, id="an update that changes it: only another webhook can have"),
        pytest.param(review(FIVE, TWO, user=OURS), 200, id="our own identity changes it"),
        pytest.param(review("garbage", TWO, user=OURS), 422, id="but not into what nobody can read"),
    ],
)
def test_the_validating_hook_sees_what_was_changed_behind_the_stamp(asked: Review, code: int) -> None:
    fault = stamp_fault(asked, CUPS, ESTIMATE)
    assert (200 if fault is None else fault.code) == code


def test_a_changed_stamp_is_told_with_both_and_its_field() -> None:
    fault = stamp_fault(review(TWO, FIVE), CUPS, ESTIMATE)
    assert fault is not None
    assert fault.message == (
        "metadata.annotations[ullage.io/takes]: "
        f"it is {TWO}, and Ullage had stamped {FIVE}: another webhook changes it; only Ullage may"
    )
    assert [one.field for one in fault.causes] == ["metadata.annotations[ullage.io/takes]"]


def noted(asked: Review, *, new: str | None, old: str | None = None) -> Review:
    """The request, with another guarded annotation on the new object and the old one."""

    def with_note(raw: msgspec.Raw, note: str | None) -> msgspec.Raw:
        found = msgspec.json.decode(raw)
        if found is not None and note is not None:
            found["metadata"]["annotations"][CHARGED_NAMESPACE] = note
        return msgspec.Raw(msgspec.json.encode(found))

    request = asked.request
    changed = msgspec.structs.replace(
        request, object=with_note(request.object, new), old_object=with_note(request.old_object, old)
    )
    return replace(asked, request=changed)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param(noted(review(TWO), new="theirs"), "ours", id="a new object gets ours"),
        pytest.param(noted(review(TWO, TWO), new="theirs", old="ours"), "ours", id="a person cannot change it"),
        pytest.param(noted(review(TWO, TWO), new=None, old="before"), "before", id="nor take it off"),
        pytest.param(noted(review(TWO, TWO, user=OURS), new="later", old="before"), "later", id="our own identity may"),
    ],
)
def test_any_annotation_can_be_guarded(asked: Review, wanted: str) -> None:
    marks = {CHARGED_NAMESPACE: "ours"}
    decided = guarded(asked, CUPS, marks)
    after = jsonpatch.apply_patch(asked.object_json(), list(decided.patch))
    assert after["metadata"]["annotations"][CHARGED_NAMESPACE] == wanted


def test_what_nobody_may_have_is_taken_off() -> None:
    asked = noted(review(TWO, TWO), new="theirs")
    decided = guarded(asked, CUPS, {CHARGED_NAMESPACE: None})
    after = jsonpatch.apply_patch(asked.object_json(), list(decided.patch))
    assert after["metadata"]["annotations"] == {"other": "kept", STAMP: TWO}


def test_an_annotation_that_was_changed_behind_the_guard_is_told_with_its_field() -> None:
    fault = guard_fault(noted(review(TWO, TWO), new="theirs"), CUPS, {CHARGED_NAMESPACE: None})
    assert fault is not None
    assert (fault.code, [one.field for one in fault.causes]) == (422, ["metadata.annotations[ullage.io/charged-namespace]"])
    assert "it is theirs, and Ullage had stamped none" in fault.message
