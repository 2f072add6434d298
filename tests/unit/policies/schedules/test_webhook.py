"""Schedules that cannot be are refused when they are written, with every field that is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Request, Review
from ullage.policies.schedules.api import SCHEDULES
from ullage.policies.schedules.webhook.hooks import ScheduleHook

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


def test_every_field_is_explained_and_the_columns_are_those_that_were_promised() -> None:
    assert undocumented(crd_of(SCHEDULES)) == []
    definition = crd_of(SCHEDULES)["spec"]["versions"][0]
    columns = [one["name"] for one in definition["additionalPrinterColumns"] if not one.get("priority")]
    assert columns == ["Schedule", "Next", "Last", "Kept", "Suspend", "Age"]
    text = definition["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["schedule"]["description"]
    assert "one that does not exist runs as soon as the clocks have changed" in " ".join(text.split())
