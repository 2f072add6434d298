"""Schedules that cannot be are refused when they are written, with every field that is wrong."""

from __future__ import annotations

from typing import Any

import jsonpatch
import msgspec
import pytest

from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.identities import CONTROLLER, account
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Request, Review, UserInfo
from ullage.policies.schedules.api import SCHEDULES
from ullage.policies.schedules.model import SCHEDULED_BY, SCHEDULED_FOR, SEEN
from ullage.policies.schedules.webhook.hooks import ScheduleHook, SnapshotMarks
from ullage.snapshots.api.ga.translation import GA

Json = dict[str, Any]


def review(spec: Json, old: Json | None = None) -> Review:
    def raw(given: Json | None) -> msgspec.Raw:
        body = None if given is None else {"metadata": {"name": "nightly", "namespace": "team"}, "spec": given}
        return msgspec.Raw(msgspec.json.encode(body))

    return Review(
        Request(
            uid="1",
            operation="CREATE" if old is None else "UPDATE",
            kind=GroupVersionKind(group=SCHEDULES.group, version=SCHEDULES.version, kind=SCHEDULES.kind),
            resource=GroupVersionResource(group=SCHEDULES.group, version=SCHEDULES.version, resource=SCHEDULES.plural),
            namespace="team",
            object=raw(spec),
            old_object=raw(old),
        )
    )


class Authorizer:
    """Says who may exec into pods."""

    def __init__(self, *, allows: bool = False) -> None:
        self.allows = allows
        self.asked: list[Json] = []

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        self.asked.append(msgspec.json.decode(body or b"{}"))
        return msgspec.json.encode({"status": {"allowed": self.allows}})


async def answer(review: Review, *, may_exec: bool = False) -> Decision:
    return await ScheduleHook(Authorizer(allows=may_exec)).answer(review)


GOOD: Json = {"schedule": "0 2 * * *", "claimSelector": {}}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"timeZone": "Europe/Berlin", "retention": {"count": 3, "age": "30d", "totalSize": "100Gi"}},
        {"claimSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
        {"template": {"labels": {"example.com/tier": "gold"}}, "group": "former"},
    ],
)
async def test_what_is_right_is_allowed(more: Json) -> None:
    assert (await answer(review({**GOOD, **more}))).allowed


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"schedule": "0 25 * * *"}, "spec.schedule"),
        ({"timeZone": "Nowhere"}, "spec.timeZone"),
        ({"retention": {"age": "forever"}}, "spec.retention.age"),
        ({"retention": {"totalSize": "much"}}, "spec.retention.totalSize"),
        ({"retention": {"totalSize": "-1"}}, "spec.retention.totalSize"),
        ({"claimSelector": {"matchLabels": {"a b": "c"}}}, "spec.claimSelector.matchLabels"),
        ({"claimSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "spec.claimSelector.matchExpressions"),
        ({"claimSelector": {"matchLabels": {f"l{n}": "" for n in range(17)}}}, "spec.claimSelector"),
        (
            {"claimSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"] * 65}]}},
            "spec.claimSelector.matchExpressions",
        ),
        ({"template": {"labels": {"ullage.io/schedule": "other"}}}, "spec.template.labels"),
        ({"template": {"labels": {"policy.ullage.io/x": "other"}}}, "spec.template.labels"),
        ({"template": {"labels": {f"l{n}": "" for n in range(17)}}}, "spec.template.labels"),
        ({"group": "no group"}, "spec.group"),
        ({"hooks": {"preset": "fsfreeze", "pre": {"command": ["sync"]}}}, "spec.hooks"),
        ({"snapshotClassName": "../x"}, "spec.snapshotClassName"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_field(more: Json, field: str) -> None:
    decision = await answer(review({**GOOD, **more}))
    assert (decision.allowed, decision.code) == (False, 422)
    assert [cause.field for cause in decision.causes] == [field]
    assert len(decision.message) < 1000


async def test_all_faults_are_told_at_once() -> None:
    decision = await answer(review({**GOOD, "schedule": "x", "group": "no group"}))
    assert [cause.field for cause in decision.causes] == ["spec.schedule", "spec.group"]


async def test_an_edit_of_something_else_is_not_asked_about() -> None:
    bad = {**GOOD, "schedule": "not any more"}
    assert (await answer(review(bad, old=bad))).allowed
    assert not (await answer(review(bad, old=GOOD))).allowed


HOOKED: Json = {**GOOD, "hooks": {"pre": {"command": ["sync"]}}}


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(HOOKED, None, id="a new one"),
        pytest.param(HOOKED, GOOD, id="one that had none"),
        pytest.param({**HOOKED, "claimSelector": {"matchLabels": {"a": "b"}}}, HOOKED, id="other claims, and so other pods"),
    ],
)
async def test_hooks_are_for_those_who_may_exec_into_pods(new: Json, old: Json | None) -> None:
    refused = await answer(review(new, old))
    assert (refused.allowed, refused.code, refused.causes[0].field) == (False, 403, "spec.hooks")
    assert (await answer(review(new, old), may_exec=True)).allowed


async def test_who_may_not_exec_may_take_the_hooks_off() -> None:
    assert (await answer(review(GOOD, HOOKED))).allowed


# --- what only Ullage writes on snapshots ------------------------------------------------------------------------------

MARKED: Json = {SCHEDULED_BY: "nightly", SCHEDULED_FOR: "2026-01-01T02:00:00Z"}
OURS = account(CONTROLLER)


def of_snapshot(notes: Json, old: Json | None = None, *, user: str = "jane") -> Review:
    def raw(given: Json | None) -> msgspec.Raw:
        spec = {"source": {"persistentVolumeClaimName": "data"}}
        body = {"metadata": {"name": "s", "namespace": "team", "annotations": given}, "spec": spec}
        return msgspec.Raw(msgspec.json.encode(None if given is None else body))

    kind = GA.snapshots
    return Review(
        Request(
            uid="1",
            operation="CREATE" if old is None else "UPDATE",
            kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
            resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
            namespace="team",
            user_info=UserInfo(username=user),
            object=raw(notes),
            old_object=raw(old),
        )
    )


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        pytest.param(of_snapshot(MARKED), None, id="whoever may create snapshots makes none of a schedule"),
        pytest.param(of_snapshot({**MARKED, "note": "x"}), {"note": "x"}, id="what else he writes stays"),
        pytest.param(of_snapshot({SEEN: "2020-01-01T00:00:00Z"}), None, id="nor says that one was there before"),
        pytest.param(of_snapshot(MARKED, old={}), None, id="nor does whoever may edit them"),
        pytest.param(of_snapshot({**MARKED, SCHEDULED_FOR: "2098-01-01T02:00:00Z"}, old=MARKED), MARKED, id="nor changes one"),
        pytest.param(of_snapshot({}, old=MARKED), MARKED, id="nor makes it one that no schedule made"),
    ],
)
async def test_what_others_write_on_the_marks_of_a_schedule_is_put_back(asked: Review, left: Json | None) -> None:
    hook = SnapshotMarks(GA)
    answer = await hook.mutate(asked)
    assert answer.allowed
    assert answer.patch
    after = jsonpatch.apply_patch(asked.object_json(), list(answer.patch))
    assert (after["metadata"].get("annotations") or None) == left
    assert not (await hook.validate(asked)).allowed, "another webhook that writes them behind ours"


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(of_snapshot(MARKED, user=OURS), id="our own controller"),
        pytest.param(of_snapshot({"note": "x"}), id="a snapshot by hand"),
        pytest.param(of_snapshot({**MARKED, "note": "x"}, old=MARKED), id="an edit of something else"),
    ],
)
async def test_what_is_right_on_a_snapshot_stays_as_it_is(asked: Review) -> None:
    hook = SnapshotMarks(GA)
    answers = [await hook.mutate(asked), await hook.validate(asked)]
    assert [(one.allowed, one.patch) for one in answers] == [(True, ())] * 2


def test_snapshots_without_these_marks_and_our_own_are_not_asked_about() -> None:
    for hook in SnapshotMarks(GA).hooks():
        assert set(hook.only_if) == {"hooks-differ", "by-others"}
        assert OURS in hook.only_if["by-others"]


def test_every_field_is_explained_and_the_columns_are_those_that_were_promised() -> None:
    assert undocumented(crd_of(SCHEDULES)) == []
    definition = crd_of(SCHEDULES)["spec"]["versions"][0]
    columns = [one["name"] for one in definition["additionalPrinterColumns"] if not one.get("priority")]
    assert columns == ["Schedule", "Next", "Last", "Kept", "Suspend", "Age"]
    text = definition["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["schedule"]["description"]
    assert "one that does not exist runs as soon as the clocks have changed" in " ".join(text.split())
