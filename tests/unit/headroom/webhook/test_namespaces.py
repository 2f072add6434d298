"""What happens to a Namespace that is written: shares come in the same request, nobody else writes them, and what runs keeps
its room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec
import pytest

from tests.unit.admission.builders import review
from ullage.headroom.accounts import MAINTENANCE, VMS
from ullage.headroom.namespaces import EXCEEDS, HEADROOM_LABEL
from ullage.headroom.shares import MAINTENANCE_AVAILABLE, MAINTENANCE_QUOTA, RESOURCE_QUOTA, VM_AVAILABLE
from ullage.headroom.webhook.namespaces import NamespaceHooks, Usage
from ullage.kube.identities import CONTROLLER, account
from ullage.kube.review import Decision, Review
from ullage.ledger.amounts import Takings

Json = dict[str, Any]
PERSON, OURS = "jane", account(CONTROLLER)


def quota(cpu: str = "4", memory: str = "5Gi") -> Json:
    return {RESOURCE_QUOTA: msgspec.json.encode({"limit": {"limitsCpu": cpu, "limitsMemory": memory}}).decode()}


def kept(cpu: int = 50, memory: int = 50) -> Json:
    return {
        MAINTENANCE_QUOTA: msgspec.json.encode({"limit": {"limitsCPUPercent": cpu, "limitsMemoryPercent": memory}}).decode()
    }


HALVES = {VM_AVAILABLE: '{"limit":{"limitsCpu":2000,"limitsMemory":2684354560}}'}
HALVES |= {MAINTENANCE_AVAILABLE: HALVES[VM_AVAILABLE]}


def body(annotations: Mapping[str, str] | None, *, label: str | None = None, version: str = "7") -> Json:
    meta: Json = {"name": "team-a", "uid": "uid-team-a", "resourceVersion": version}
    if annotations is not None:
        meta["annotations"] = dict(annotations)
    if label is not None:
        meta["labels"] = {HEADROOM_LABEL: label, "kubernetes.io/metadata.name": "team-a"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {"finalizers": ["kubernetes"]}}


def asked(new: Json, old: Json | None, *, user: str = PERSON) -> Review:
    return review(
        kind={"group": "", "version": "v1", "kind": "Namespace"},
        name="team-a",
        namespace="team-a",
        operation="CREATE" if old is None else "UPDATE",
        object=new,
        oldObject=old,
        userInfo={"username": user},
    )


def hooks(
    taken: Mapping[str, Mapping[str, str]] | None = None, reserved: Mapping[str, Mapping[str, str]] | None = None
) -> NamespaceHooks:
    async def used(namespace: str) -> Usage:
        assert namespace == "team-a"
        return Usage(Takings.parse(taken or {}), Takings.parse(reserved or {}))

    async def hold(review: Review) -> Decision | None:
        return None

    return NamespaceHooks(used, hold)


async def mutated(new: Json, old: Json | None = None, *, user: str = PERSON) -> Json:
    decided = await hooks().mutate(asked(new, old, user=user))
    assert decided.allowed, decided.message
    found: Json = jsonpatch.apply_patch(new, list(decided.patch))
    return found


def told(found: Json) -> tuple[Json, str | None]:
    """What Ullage writes there."""
    meta = found["metadata"]
    ours = (VM_AVAILABLE, MAINTENANCE_AVAILABLE, EXCEEDS)
    return {key: one for key, one in (meta.get("annotations") or {}).items() if key in ours}, (meta.get("labels") or {}).get(
        HEADROOM_LABEL
    )


OFF: tuple[Json, str | None] = ({}, None)
ON = (HALVES, "on")
WAS = body(quota() | kept() | HALVES, label="on")
OVER = body(quota() | kept() | HALVES | {EXCEEDS: "true"}, label="on")


@pytest.mark.parametrize(
    ("new", "old", "after"),
    [
        pytest.param(body(quota() | kept()), None, ON, id="a new namespace has its shares at once"),
        pytest.param(body(quota() | kept()), body({}), ON, id="so has one that gets the annotations"),
        pytest.param(
            body(quota() | kept() | {VM_AVAILABLE: '{"limit":{"limitsCpu":9000}}', MAINTENANCE_AVAILABLE: "x"}),
            None,
            ON,
            id="what a person writes there is overwritten",
        ),
        pytest.param(body(quota() | kept(), label="off"), WAS, ON, id="taken away by a person, they come back, and the label"),
        pytest.param(body(quota()), WAS, OFF, id="without a percentage nothing stays"),
        pytest.param(body(None), WAS, OFF, id="without annotations nothing stays"),
        pytest.param(
            body(kept() | HALVES, label="on"), OVER, OFF, id="without the quota nothing stays, whatever is to be kept"
        ),
        pytest.param(
            body({RESOURCE_QUOTA: '{"limit":{"limitsCpu":"4"}}'} | kept() | HALVES, label="on"),
            WAS,
            (dict.fromkeys((VM_AVAILABLE, MAINTENANCE_AVAILABLE), '{"limit":{"limitsCpu":2000}}'), "on"),
            id="of a quota of CPU alone only CPU is divided",
        ),
        pytest.param(body(quota() | kept(0, 0) | HALVES, label="on"), WAS, OFF, id="0 is off"),
        pytest.param(body(HALVES | {EXCEEDS: "true"}, label="on"), None, OFF, id="a person cannot switch it on like this"),
        pytest.param(body(quota() | kept() | {EXCEEDS: "true"}), None, ON, id="nobody else says that a quota is exceeded"),
        pytest.param(WAS, OVER, (HALVES | {EXCEEDS: "true"}, "on"), id="nor that it is not"),
        pytest.param(
            body(quota() | kept() | HALVES | {EXCEEDS: "false"}, label="on"),
            OVER,
            (HALVES | {EXCEEDS: "true"}, "on"),
            id="in other words neither",
        ),
        pytest.param(body(quota()), OVER, OFF, id="what has no shares does not exceed them"),
        pytest.param(
            body(quota("10", "5Gi") | kept(25, 0)),
            WAS,
            (
                {VM_AVAILABLE: '{"limit":{"limitsCpu":7500}}', MAINTENANCE_AVAILABLE: '{"limit":{"limitsCpu":2500}}'},
                "on",
            ),
            id="other shares, and one resource without",
        ),
    ],
)
async def test_what_is_written_on_a_namespace(new: Json, old: Json | None, after: tuple[Json, str | None]) -> None:
    found = await mutated(new, old)
    assert told(found) == after
    decided = await hooks().validate(asked(found, old))
    assert decided.allowed, decided.message


async def test_all_else_stays() -> None:
    new = body(quota() | kept() | {"field.cattle.io/projectId": "c-1:p-2"})
    new["metadata"]["labels"] = {"team": "a"}
    found = await mutated(new)
    assert found["metadata"]["annotations"] == quota() | kept() | HALVES | {"field.cattle.io/projectId": "c-1:p-2"}
    assert found["metadata"]["labels"] == {"team": "a", HEADROOM_LABEL: "on"}
    assert found["spec"] == new["spec"]


async def test_our_own_controller_says_that_a_quota_is_exceeded_and_that_it_is_not() -> None:
    assert told(await mutated(OVER, WAS, user=OURS)) == (HALVES | {EXCEEDS: "true"}, "on")
    assert told(await mutated(WAS, OVER, user=OURS)) == ON


@pytest.mark.parametrize("phase", ["mutate", "validate"])
async def test_what_is_wrong_is_refused_with_the_annotation_and_nothing_changes(phase: str) -> None:
    decided: Decision = await getattr(hooks(), phase)(asked(body(quota() | kept(101, 50)), WAS))
    assert (decided.allowed, decided.code, decided.reason) == (False, 422, "Invalid")
    field = "metadata.annotations[harvesterhci.io/maintenanceQuota]"
    problem = "limit.limitsCPUPercent is 101; a whole number from 0 to 100 is allowed, and 0 keeps nothing back"
    assert decided.message == f"{field}: {problem}"
    assert [(one.field, one.message) for one in decided.causes] == [(field, problem)]


async def test_what_was_wrong_before_is_in_nobodys_way_and_shares_stay_as_they_were() -> None:
    broken = {**quota(), MAINTENANCE_QUOTA: "{"}
    old = body(broken | {VM_AVAILABLE: "before"}, label="on")
    found = await mutated(body(broken | {VM_AVAILABLE: "mine", EXCEEDS: "true", "note": "x"}), old)
    assert told(found) == ({VM_AVAILABLE: "before"}, "on")
    assert (await hooks().validate(asked(found, old))).allowed


async def test_what_another_webhook_writes_behind_ours_is_refused() -> None:
    decided = await hooks().validate(asked(body(quota() | kept() | {**HALVES, VM_AVAILABLE: "all"}, label="on"), WAS))
    assert (decided.code, decided.message) == (
        422,
        "metadata.annotations[harvesterhci.io/vmAvailable]: it is all, and Ullage had written "
        '{"limit":{"limitsCpu":2000,"limitsMemory":2684354560}}: another webhook changes it; only Ullage may',
    )


async def test_nor_is_the_label_taken_off_behind_us() -> None:
    decided = await hooks().validate(asked(body(quota() | kept() | HALVES), WAS))
    assert (decided.code, decided.message) == (
        422,
        "metadata.labels[ullage.io/headroom]: it is missing, and Ullage had written on: another webhook changes it; only Ullage"
        " may",
    )


TWO = {VMS: {"cpu": "2", "memory": "2444Mi"}}
ONE_MOVES = {MAINTENANCE: {"cpu": "1", "memory": "1222Mi"}}


@pytest.mark.parametrize(
    ("new", "taken", "said"),
    [
        pytest.param(quota() | kept(), TWO, "", id="as before"),
        pytest.param(quota("4", "4888Mi") | kept(), TWO, "", id="exactly what runs is left"),
        pytest.param(
            quota("3", "5Gi") | kept(),
            TWO,
            "what runs in namespace team-a takes 2 cores of cpu, and 1.5 cores would be left for it, 0.5 cores too little (of"
            " the quota of 3 cores, 1.5 cores would be kept for maintenance): stop VMs first. Next: ullage usage -n team-a",
            id="a lower quota",
        ),
        pytest.param(
            quota() | kept(75, 75),
            TWO,
            "what runs in namespace team-a takes 2 cores of cpu, and 1 core would be left for it, 1 core too little (of the"
            " quota of 4 cores, 3 cores would be kept for maintenance): stop VMs first; what runs in namespace team-a takes"
            " 2.39Gi of memory, and 1.25Gi would be left for it, 1.14Gi too little (of the quota of 5Gi, 3.75Gi would be kept"
            " for maintenance): stop VMs first. Next: ullage usage -n team-a",
            id="a higher percentage: every resource is told",
        ),
        pytest.param(quota() | kept(0, 50), TWO | ONE_MOVES, "migrations that are under way", id="off while a VM moves"),
        pytest.param(quota() | kept(0, 0), TWO, "", id="off while none does"),
        pytest.param(quota("3", "5Gi") | kept(33, 50), TWO, "", id="the other way round"),
        pytest.param(
            quota() | kept(20, 50),
            TWO | ONE_MOVES,
            "migrations that are under way in namespace team-a hold 1 core of cpu, and 0.8 cores would be kept for them: wait"
            " until they have ended, or delete them. Next: ullage usage -n team-a",
            id="less than a migration needs",
        ),
        pytest.param(
            {},
            TWO | ONE_MOVES,
            "migrations that are under way in namespace team-a hold 1 core of cpu, and none would be kept: wait until they have"
            " ended, or delete them; migrations that are under way in namespace team-a hold 1.2Gi of memory, and none would be"
            " kept: wait until they have ended, or delete them. Next: ullage usage -n team-a",
            id="no annotations any more",
        ),
        pytest.param(quota() | kept(25, 50), TWO | ONE_MOVES, "", id="exactly what a migration needs"),
        pytest.param(quota("5", "6Gi") | kept(), {VMS: {"cpu": "9"}}, "", id="more for too many"),
        pytest.param(quota("4", "6Gi") | kept(), {VMS: {"cpu": "9"}}, "", id="more of one resource, where the other is over"),
    ],
)
async def test_what_runs_keeps_its_room(new: Json, taken: Mapping[str, Mapping[str, str]], said: str) -> None:
    decided = await hooks(taken).validate(asked(await mutated(body(new), WAS), WAS))
    assert decided.allowed == (not said), decided.message
    if said:
        assert decided.code == 403
        assert decided.message.startswith(said)


NO_CPU, NO_MEMORY = (
    f"metadata.annotations[{MAINTENANCE_QUOTA}]: limit.{name}Percent keeps 50 % of a quota that is not there: {resource} has no"
    f" limit; set limit.{name} in metadata.annotations[{RESOURCE_QUOTA}], or 0 here"
    for name, resource in (("limitsCpu", "cpu"), ("limitsMemory", "memory"))
)


async def test_rancher_may_take_its_quota_away_while_percentages_stay_and_vms_run_and_move() -> None:
    new = await mutated(body(kept() | HALVES, label="on"), WAS)
    decided = await hooks(TWO | ONE_MOVES).validate(asked(new, WAS))
    assert decided.allowed, decided.message
    gone = "the shares of cpu and memory go with the quota, and what is booked stays booked"
    assert decided.warnings == (NO_CPU, NO_MEMORY, gone)
    # Nor is what is done later in that namespace told of it again.
    later = body(kept() | {"note": "x"})
    assert (await hooks().validate(asked(later, new))).warnings == ()


async def test_percentages_of_a_quota_of_cpu_alone_count_for_cpu_with_a_warning() -> None:
    new = await mutated(body({RESOURCE_QUOTA: '{"limit":{"limitsCpu":"4"}}'} | kept()))
    decided = await hooks().validate(asked(new, None))
    assert (decided.allowed, decided.warnings) == (True, (NO_MEMORY,))
    # What runs still has to fit the resource that stays divided.
    less = await mutated(body({RESOURCE_QUOTA: '{"limit":{"limitsCpu":"2"}}'} | kept() | HALVES, label="on"), WAS)
    assert (await hooks(TWO).validate(asked(less, WAS))).code == 403


async def test_what_is_admitted_and_not_there_yet_counts_and_is_told() -> None:
    new = await mutated(body(quota("3", "5Gi") | kept()), WAS)
    decided = await hooks({VMS: {"cpu": "2"}}, {VMS: {"cpu": "1"}}).validate(asked(new, WAS))
    assert "takes 2 cores (1 core of it reserved) of cpu, and 1.5 cores would be left" in decided.message


async def test_a_first_share_has_to_fit_what_runs() -> None:
    new = await mutated(body(quota() | kept()), body(quota()))
    decided = await hooks({VMS: {"cpu": "2001m"}}).validate(asked(new, body(quota())))
    assert decided.message.startswith("what runs in namespace team-a takes 2.01 cores of cpu, and 2 cores would be left")


async def test_our_own_controller_writes_the_shares_of_a_namespace_that_was_there_before_us() -> None:
    new = await mutated(body(quota() | kept()), body(quota() | kept()), user=OURS)
    assert (await hooks({VMS: {"cpu": "9"}}).validate(asked(new, body(quota() | kept()), user=OURS))).allowed
