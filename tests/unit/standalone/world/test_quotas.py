"""What Rancher's annotation means for the quota of a namespace, and when a quota has more room."""

from __future__ import annotations

import pytest

from tests.unit.standalone.world.builders import GOING
from ullage.errors import BadInput
from ullage.kube.builtin.core import CoreQuota, CoreQuotaSpec, CoreQuotaStatus
from ullage.kube.kinds import Meta, Object
from ullage.standalone.world.quotas import (
    LABEL,
    DeleteQuotas,
    MakeQuota,
    QuotaPlan,
    ResetQuota,
    has_more_room,
    new_quota,
    plan_quota,
    quota_name,
    reset,
    wanted_hard,
)

ANNOTATION = "field.cattle.io/resourceQuota"
CPU = '{"limit":{"limitsCpu":"4000m"}}'


@pytest.mark.parametrize(
    ("text", "hard"),
    [
        pytest.param("", {}, id="none"),
        pytest.param("{}", {}, id="nothing is limited"),
        pytest.param('{"limit":null}', {}, id="no limit"),
        pytest.param(
            '{"limit":{"limitsCpu":"4000m","limitsMemory":"5120Mi"}}',
            {"limits.cpu": "4", "limits.memory": "5Gi"},
            id="as Rancher writes it",
        ),
        pytest.param(
            '{"Limit":{"LIMITSCPU":2}}', {"limits.cpu": "2"}, id="the case of a name does not matter, nor does a number"
        ),
        pytest.param(
            '{"limit":{"pods":"10","requestsStorage":"1Ti","servicesNodePorts":"0","configMaps":"5"}}',
            {"pods": "10", "requests.storage": "1Ti", "services.nodeports": "0", "configmaps": "5"},
            id="all that Rancher knows; zero is a limit",
        ),
        pytest.param('{"limit":{"limitsCpu":"","gpus":"2"},"other":1}', {}, id="what is empty or not known is left out"),
    ],
)
def test_what_the_annotation_means(text: str, hard: dict[str, str]) -> None:
    assert wanted_hard({ANNOTATION: text}) == hard


def test_all_of_ranchers_names_are_known() -> None:
    names = (
        "pods services replicationControllers secrets configMaps persistentVolumeClaims servicesNodePorts "
        "servicesLoadBalancers requestsCpu requestsMemory requestsStorage limitsCpu limitsMemory"
    )
    text = ",".join(f'"{name}":"1"' for name in names.split())
    assert len(wanted_hard({ANNOTATION: f'{{"limit":{{{text}}}}}'})) == len(names.split())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("4 CPUs", "not JSON", id="no JSON"),
        pytest.param("[1]", "not an object", id="a list"),
        pytest.param('{"limit":"4"}', "its limit is not an object", id="a limit that is a word"),
        pytest.param('{"limit":{"limitsCpu":"four"}}', "limit.limitsCpu four", id="no quantity"),
        pytest.param('{"limit":{"limitsCpu":["4"]}}', "limit.limitsCpu ['4']", id="a list in the place of a quantity"),
        pytest.param('{"limit":{"limitsCpu":"-4"}}', "an amount is not negative", id="less than nothing"),
        pytest.param(" " * 20000, "16384 at most are allowed", id="far too long"),
        pytest.param("[" * 9000, "not JSON", id="far too deep"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as found:
        wanted_hard({ANNOTATION: text})
    assert problem in str(found.value)
    assert str(found.value).startswith(f"metadata.annotations[{ANNOTATION}]")
    assert len(str(found.value)) < 400


def namespace(text: str = CPU, *, going: bool = False) -> Object:
    meta = Meta(name="shop", uid="uid-shop", annotations={ANNOTATION: text} if text else {})
    return Object(metadata=meta if not going else Meta(name="shop", uid="uid-shop", deletion_timestamp=GOING))


def quota(name: str = "default-x", *, label: str = "true", going: bool = False, created: str = "", **hard: str) -> CoreQuota:
    labels = {LABEL: label} if label else {}
    meta = Meta(name=name, uid=name, labels=labels, creation_timestamp=created, deletion_timestamp=GOING if going else None)
    return CoreQuota(metadata=meta, spec=CoreQuotaSpec(hard={key.replace("_", "."): value for key, value in hard.items()}))


RIGHT = quota(limits_cpu="4")
RAISED = quota(limits_cpu="5")
BARE = quota(quota_name(namespace().metadata), label="", limits_cpu="4")
SECOND = quota("default-y", created="2026", limits_cpu="4")


@pytest.mark.parametrize(
    ("found", "quotas", "plan"),
    [
        pytest.param(namespace(), [], MakeQuota({"limits.cpu": "4"}), id="it is made"),
        pytest.param(namespace(), [RIGHT], None, id="it is as it should be"),
        pytest.param(namespace(), [quota(limits_cpu="4000m")], None, id="an equal amount is the same"),
        pytest.param(namespace(), [RAISED], ResetQuota(RAISED, {"limits.cpu": "4"}), id="somebody raised it"),
        pytest.param(namespace(), [BARE], ResetQuota(BARE, {"limits.cpu": "4"}), id="somebody took its label off"),
        pytest.param(namespace(), [SECOND, RIGHT], DeleteQuotas((SECOND,)), id="one is enough"),
        pytest.param(namespace(), [quota(going=True)], MakeQuota({"limits.cpu": "4"}), id="one that goes does not count"),
        pytest.param(namespace(), [quota("mine", label="")], MakeQuota({"limits.cpu": "4"}), id="that of others is left alone"),
        pytest.param(namespace(""), [RIGHT], DeleteQuotas((RIGHT,)), id="the annotation is gone"),
        pytest.param(namespace(""), [quota("mine", label="", pods="1")], None, id="that of others stays"),
        pytest.param(namespace(going=True), [RIGHT], None, id="a namespace that goes is left alone"),
    ],
)
def test_what_is_done(found: Object, quotas: list[CoreQuota], plan: QuotaPlan | None) -> None:
    assert plan_quota(found, quotas) == plan


def test_it_is_named_and_labelled_as_ranchers() -> None:
    made = new_quota(namespace().metadata, {"limits.cpu": "4"})
    assert made["metadata"]["name"].startswith("default-")
    assert made["metadata"]["labels"] == {"resourcequota.management.cattle.io/default-resource-quota": "true"}
    assert made == new_quota(namespace().metadata, {"limits.cpu": "4"})


def test_a_reset_takes_off_what_is_not_wanted() -> None:
    assert reset(ResetQuota(quota(limits_cpu="9", pods="1"), {"limits.cpu": "4"}))["spec"] == {
        "hard": {"limits.cpu": "4", "pods": None}
    }


def seen(hard: str, used: str, resource: str = "limits.cpu") -> CoreQuota:
    return CoreQuota(metadata=Meta(name="q"), status=CoreQuotaStatus(hard={resource: hard}, used={resource: used}))


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        pytest.param(None, seen("4", "0"), False, id="a new one only takes"),
        pytest.param(seen("4", "4"), None, True, id="it is gone"),
        pytest.param(seen("4", "4"), seen("4000m", "4"), False, id="nothing has changed"),
        pytest.param(seen("4", "3"), seen("4", "4"), False, id="more is used"),
        pytest.param(seen("4", "4"), seen("4", "3"), True, id="less is used"),
        pytest.param(seen("4", "4"), seen("5", "4"), True, id="it was raised"),
        pytest.param(seen("4", "4"), seen("3", "4"), False, id="it was lowered"),
        pytest.param(seen("4", "4"), seen("4", "4", "pods"), True, id="a resource is not limited any more"),
    ],
)
def test_when_there_is_more_room(old: CoreQuota | None, new: CoreQuota | None, more: bool) -> None:
    assert has_more_room(old, new) is more
