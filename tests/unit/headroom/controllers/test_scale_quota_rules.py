"""By how much a core quota is raised, whoever else writes to it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from ullage.headroom.controllers.scale_quota_rules import NAMED, OPTED_OUT, RAISED, BadRecord, Moving, QuotaChange, plan
from ullage.kube.builtin.core import CoreQuota, CoreQuotaSpec
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Amounts
from ullage.quantity import Quantity

MI = 1 << 20


def cost(**amounts: str) -> Amounts:
    return Amounts({name: Quantity.parse(text) for name, text in amounts.items()})


VM1 = Moving("vm1", cost(cpu="1", memory="1222Mi"))
VM2 = Moving("vm2", cost(cpu="500m", memory="700Mi"))
BASE = {"limits.cpu": "4", "limits.memory": "5Gi"}


def quota(hard: dict[str, Any] | None = None, marks: dict[str, str] | None = None) -> CoreQuota:
    meta = Meta(name="default-abc", namespace="team-a", annotations=marks or {})
    return CoreQuota(metadata=meta, spec=CoreQuotaSpec(hard=dict(BASE) if hard is None else hard))


def applied(found: CoreQuota, change: QuotaChange | None) -> CoreQuota:
    """What the API makes of it."""
    if change is None:
        return found
    marks = {key: value for key, value in found.metadata.annotations.items() if key != RAISED}
    marks |= {} if change.record is None else {RAISED: change.record}
    hard = {**found.spec.hard, **change.hard}
    return CoreQuota(metadata=msgspec.structs.replace(found.metadata, annotations=marks), spec=CoreQuotaSpec(hard=hard))


def reset(found: CoreQuota, hard: Mapping[str, str | int]) -> CoreQuota:
    """What Rancher does: its own value, and everything else as it is."""
    return msgspec.structs.replace(found, spec=CoreQuotaSpec(hard=dict(hard)))


def scaled(found: CoreQuota, *moving: Moving) -> CoreQuota:
    return applied(found, plan(found, moving))


def test_nothing_is_written_where_nothing_migrates() -> None:
    assert plan(quota(), []) is None


def test_a_migration_raises_the_quota_by_what_its_instance_takes_and_its_end_lowers_it() -> None:
    raised = scaled(quota(), VM1)
    assert raised.spec.hard == {"limits.cpu": "5", "limits.memory": str(5 * 1024 + 1222) + "Mi"}
    assert msgspec.json.decode(raised.metadata.annotations[RAISED]) == {
        "base": {"limits.cpu": "4", "limits.memory": "5Gi"},
        "hard": {"limits.cpu": "5", "limits.memory": "6342Mi"},
        "instances": ["vm1"],
    }
    assert scaled(raised) == quota()


def test_it_is_not_added_twice_by_whoever_looks_again() -> None:
    assert plan(scaled(quota(), VM1), [VM1]) is None


def test_an_instance_counts_once_however_many_migrations_name_it() -> None:
    assert scaled(quota(), VM1, VM1) == scaled(quota(), VM1)


def test_several_at_once_come_and_go_in_any_order() -> None:
    both = scaled(scaled(quota(), VM1), VM1, VM2)
    assert both.spec.hard == {"limits.cpu": "5500m", "limits.memory": "7042Mi"}
    assert scaled(both, VM2) == scaled(quota(), VM2)
    assert scaled(both) == quota()


@pytest.mark.parametrize(
    "new", [pytest.param("4", id="to what it was"), pytest.param("3", id="to less"), pytest.param("9", id="to more")]
)
def test_what_another_controller_sets_meanwhile_is_the_base_from_then_on(new: str) -> None:
    theirs = {"limits.cpu": new, "limits.memory": "5Gi"}
    again = scaled(reset(scaled(quota(), VM1), theirs), VM1)
    assert again.spec.hard == {"limits.cpu": str(int(new) + 1), "limits.memory": "6342Mi"}
    assert scaled(again) == quota(theirs)


def test_a_reset_after_the_migration_went_unseen_takes_the_record_along() -> None:
    assert scaled(reset(scaled(quota(), VM1), BASE)) == quota()


def test_one_limit_that_is_reset_leaves_the_other_raised() -> None:
    raised = scaled(quota(), VM1)
    assert scaled(reset(raised, {**raised.spec.hard, "limits.cpu": "4"}), VM1) == raised


def test_the_value_is_compared_and_not_its_spelling() -> None:
    raised = scaled(quota(), VM1)
    assert plan(reset(raised, {"limits.cpu": "5000m", "limits.memory": str(6342 * MI)}), [VM1]) is None


@pytest.mark.parametrize(
    ("hard", "wanted"),
    [
        pytest.param({"limits.cpu": "4"}, {"limits.cpu": "5"}, id="what is not limited stays so"),
        pytest.param({"limits.cpu": "0", "pods": 3}, {"limits.cpu": "0", "pods": "4"}, id="nothing stays nothing"),
        pytest.param({"requests.storage": "1Ti"}, {"requests.storage": "1Ti"}, id="disks are not doubled"),
        pytest.param(
            {"requests.cpu": "2", "requests.memory": "1Gi", "count/pods": "7"},
            {"requests.cpu": "3", "requests.memory": "2246Mi", "count/pods": "8"},
            id="what a pod asks for, and that it is one more, has to fit, too",
        ),
    ],
)
def test_which_limits_are_raised(hard: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert scaled(quota(hard), VM1).spec.hard == wanted


def test_whoever_has_opted_out_is_left_alone_and_what_was_added_before_goes() -> None:
    assert plan(quota(marks={OPTED_OUT: "true"}), [VM1]) is None
    raised = scaled(quota(), VM1)
    out = msgspec.structs.replace(raised.metadata, annotations={**raised.metadata.annotations, OPTED_OUT: "true"})
    assert scaled(msgspec.structs.replace(raised, metadata=out), VM1).spec.hard == BASE


@pytest.mark.parametrize("mark", ["harvesterhci.io/migratingUID-0b1c", "harvesterhci.io/migrating-vm1"])
def test_a_quota_that_harvester_raises_itself_is_not_raised_twice(mark: str) -> None:
    assert plan(quota(marks={mark: '{"limits.cpu":"1"}'}), [VM1]) is None


def test_a_drain_of_thousands_stays_within_what_an_annotation_may_hold() -> None:
    many = [Moving(f"vm-{number:05}-{'x' * 50}", cost(cpu="1m", memory="1")) for number in range(5_000)]
    raised = scaled(quota(), *many)
    assert raised.spec.hard["limits.cpu"] == "9"
    assert len(msgspec.json.decode(raised.metadata.annotations[RAISED])["instances"]) == NAMED


@pytest.mark.parametrize("text", ["", "{}", "[]", "four", '{"base":{},"hard":{},"instances":[],"more":1}'])
def test_a_record_that_cannot_be_read_says_so_and_nothing_is_added(text: str) -> None:
    with pytest.raises(BadRecord) as caught:
        plan(quota(marks={RAISED: text}), [VM1])
    assert str(caught.value).startswith(f"metadata.annotations[{RAISED}]: {text!r} cannot be read")
    assert str(caught.value).endswith("set spec.hard to what it is to be, and remove the annotation")


def test_an_amount_in_the_record_that_is_none_says_so() -> None:
    text = '{"base":{"limits.cpu":"lots"},"hard":{"limits.cpu":"5"},"instances":[]}'
    with pytest.raises(BadRecord, match=r"raised-for-migrations\]: .*'lots'"):
        plan(quota(marks={RAISED: text}), [])


@pytest.mark.parametrize("seed", range(50))
def test_whatever_happens_in_whichever_order_the_sum_is_right_once_somebody_has_looked(seed: int) -> None:
    """Migrations come and go while nobody looks, Rancher resets at any moment, and somebody else has looked before us with an
    older copy: his write was a conflict, so it is as if he had not been. Costs are odd and bases even, so that no base is by
    chance what we wrote."""
    random = Random(seed)
    base, migrating = 4000, dict[str, Moving]()
    found = quota({"limits.cpu": f"{base}m"})
    for _ in range(200):
        match random.choice(("start", "end", "reset", "change", "look", "look")):
            case "start":
                name = f"vm{random.randrange(6)}"
                migrating[name] = Moving(name, cost(cpu=f"{random.randrange(1, 1000, 2) * 7919}m"))
            case "end" if migrating:
                del migrating[random.choice(sorted(migrating))]
            case "reset":
                found = reset(found, {"limits.cpu": f"{base}m"})
            case "change":
                base = random.randrange(1000, 9000, 1000)
                found = reset(found, {"limits.cpu": f"{base}m"})
            case "look":
                found = scaled(found, *migrating.values())
                total = base + sum(one.cost["cpu"].milli() for one in migrating.values())
                assert Quantity.parse(str(found.spec.hard["limits.cpu"])).milli() == total
                assert plan(found, migrating.values()) is None
                assert (RAISED in found.metadata.annotations) == bool(migrating)
