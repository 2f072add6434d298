"""What the status of a quota says, word by word; and that it is said in time, once, and to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.space.builders import GI, NOW, SOURCE, book, quota, takes
from tests.unit.space.controllers.quota.scene import TEAM, QuotaScene
from tests.unit.space.controllers.quota.test_limits import simulated
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, find_condition
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec
from ullage.ledger.book import Book
from ullage.ledger.codec import status_of as ledger_status
from ullage.space.api import READY, USAGE_FRESH, WITHIN_QUOTA, ResourceQuota, ResourceQuotaStatus
from ullage.space.controllers.quota_status import event_for
from ullage.space.controllers.quota_status_rules import StatusFacts, status_of
from ullage.space.metrics import QuotaMetrics
from ullage.space.quota import usage_in
from ullage.vms.api.machines import VIRTUAL_MACHINES

SEE = "nothing is deleted; see `ullage usage -n team-a --group-by vm`"
QUOTA_STATUS = "patch resourcequotas/status"


def ledger(about: ResourceQuota, used: Takings | None = None, *, exact: bool = True) -> Ledger:
    found = book(about, used=used)
    limits = {cell.account: {cell.resource: str(limit)} for cell, limit in found.limits.items()}
    bare = Ledger(metadata=Meta(name=f"ns-{TEAM}", generation=1), spec=LedgerSpec(limits=limits))
    since = {"since": NOW, "exact_from": {SOURCE: 1 if exact else 99}}
    counted = Book.of(limits=found.limits, observed=found.observed, limited=frozenset(limits), **since)  # type: ignore[arg-type]
    return msgspec.structs.replace(bare, status=ledger_status(counted, bare, sources={SOURCE}, now=NOW))


def facts(
    about: ResourceQuota,
    used: Takings | None = None,
    *,
    reserved: Takings | None = None,
    exact: bool = True,
    there: Set[str] | None = None,
    **more: Any,
) -> StatusFacts:
    usage = None if used is None else usage_in(book(about, used=used, reserved=reserved))
    exists: Callable[[str], bool] = (lambda vm: True) if there is None else there.__contains__
    given: dict[str, Any] = {"ledger": ledger(about, used, exact=exact), "usage": usage, "estimates": {}, "exists": exists}
    return StatusFacts(quota=about, **{**given, **more})


def conditions(status: ResourceQuotaStatus) -> dict[str, tuple[str, str, str]]:
    return {one.type: (one.status, one.reason, one.message) for one in status.conditions}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(facts(quota(10 * GI), takes(0)), ("True", "InForce", "in force: 10Gi for the namespace"), id="one limit"),
        pytest.param(
            facts(quota(10 * GI, {"db": 1}), takes(0)),
            ("True", "InForce", "in force: 10Gi for the namespace, 1 virtual machine with a limit of its own"),
            id="two limits",
        ),
        pytest.param(
            facts(quota(0, {"db": 1, "web": 2, "none": 0}), takes(0)),
            ("True", "InForce", "in force: 2 virtual machines with a limit of their own"),
            id="zero is no limit",
        ),
        pytest.param(facts(quota(), takes(0)), ("True", "InForce", "there is no limit"), id="no limit"),
        pytest.param(
            facts(quota(10 * GI), takes(0), may_pass_by=3 * GI),
            ("True", "InForce", "in force: 10Gi for the namespace; estimated: may pass by up to 3Gi"),
            id="one that may be passed, since snapshots are estimated by the last one",
        ),
        pytest.param(facts(quota(), takes(0), may_pass_by=3 * GI), ("True", "InForce", "there is no limit"), id="none to pass"),
        pytest.param(
            facts(quota(5), takes(0), ledger=None),
            ("False", "Pending", "the limits are not in ledger ns-team-a yet"),
            id="no ledger yet",
        ),
        pytest.param(
            facts(quota(5), takes(0), ledger=ledger(quota(4))),
            ("False", "Pending", "the limits are not in ledger ns-team-a yet"),
            id="the limits of before",
        ),
        pytest.param(
            facts(quota(5, name="another")),
            ("False", "WrongName", "only the quota that is called default-resource-quota counts: this one limits nothing"),
            id="another name",
        ),
        pytest.param(
            facts(quota(5, {"db": -1}), takes(0)),
            (
                "False",
                "InvalidLimits",
                "these allow nothing until they are corrected, or are no limit at all: "
                "spec.snapshotLimit.vmTotalSnapshotSizeQuota[db]: must be greater than or equal to 0, and is -1",
            ),
            id="a value that was there before the webhook",
        ),
    ],
)
def test_ready(asked: StatusFacts, said: tuple[str, str, str]) -> None:
    assert conditions(status_of(asked, now=NOW))[READY] == said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(
            facts(quota(10 * GI), takes(19 * GI // 2)),
            ("True", "WithinQuota", "the snapshots of the namespace take 9.5Gi of 10Gi (95%)"),
            id="nearly full",
        ),
        pytest.param(
            facts(quota(10 * GI), takes(10 * GI)),
            ("True", "WithinQuota", "the snapshots of the namespace take 10Gi of 10Gi (100%)"),
            id="exactly full",
        ),
        pytest.param(
            facts(quota(), takes(GI)),
            ("True", "WithinQuota", "the snapshots of the namespace take 1Gi without a limit"),
            id="no limit",
        ),
        pytest.param(
            facts(quota(10 * GI), takes(10 * GI + 1)),
            (
                "False",
                "QuotaPassed",
                f"the snapshots of namespace team-a take 10.01Gi, 1 byte more than the limit of 10Gi; {SEE}",
            ),
            id="one byte too many, and no VM's",
        ),
        pytest.param(
            facts(
                quota(10 * GI, {"db": 5 * GI}),
                takes(11 * GI, db=6 * GI, web=2 * GI, a=GI, b=GI),
                reserved=takes(GI, web=GI),
            ),
            (
                "False",
                "QuotaPassed",
                "the snapshots of namespace team-a take 12Gi (1Gi of it reserved), 2Gi more than the limit of 10Gi; "
                "the snapshots of VM db take 6Gi, 1Gi more than the limit of 5Gi; "
                f"the most is taken by VM db (6Gi), VM web (3Gi), VM a (1Gi); {SEE}",
            ),
            id="both limits, and who takes the most",
        ),
        pytest.param(
            facts(quota(None, {f"vm-{n}": n for n in range(1, 9)}), takes(99, **{f"vm-{n}": 10 for n in range(1, 9)})),
            (
                "False",
                "QuotaPassed",
                "; ".join(
                    f"the snapshots of VM vm-{n} take 10 bytes, {10 - n} byte{'s' if n < 9 else ''} more than the limit of "
                    f"{n} byte{'s' if n > 1 else ''}"
                    for n in range(1, 6)
                )
                + f"; and 3 more; the most is taken by VM vm-1 (10 bytes), VM vm-2 (10 bytes), VM vm-3 (10 bytes); {SEE}",
            ),
            id="many limits: five are spelled out, the furthest past first",
        ),
        pytest.param(
            facts(quota(None, {"db": 5}), takes(9, db=9), there={"web"}),
            ("True", "WithinQuota", "the snapshots of the namespace take 9 bytes without a limit"),
            id="a VM that is deleted passes no limit",
        ),
        pytest.param(facts(quota(5)), ("Unknown", "NotCounted", "what snapshots take is not known yet"), id="not counted"),
    ],
)
def test_within_quota(asked: StatusFacts, said: tuple[str, str, str]) -> None:
    assert conditions(status_of(asked, now=NOW))[WITHIN_QUOTA] == said


@pytest.mark.parametrize(
    ("asked", "status", "reason", "message"),
    [
        pytest.param(facts(quota(5), takes(1)), "True", "Exact", "everything is counted", id="exact"),
        pytest.param(
            facts(quota(5), takes(1), estimates={"engine-head": 12, "capacity": 3}),
            "True",
            "Exact",
            "everything is counted; sizes of 3 by capacity (an upper bound), 12 by engine-head",
            id="how sizes are known",
        ),
        pytest.param(
            facts(quota(5), takes(1), exact=False),
            "False",
            "Counted",
            "new requests are held to what is set, and what was admitted before may still arrive; to be counted after all"
            " requests have ended that began before 2026-01-01T00:00:00Z: " + SOURCE,
            id="as the ledger says",
        ),
        pytest.param(facts(quota(5)), "Unknown", "NotCounted", "nobody has counted yet", id="nobody has counted"),
        pytest.param(
            facts(quota(5), problem="the ledger cannot be read: x"),
            "False",
            "Unreadable",
            "the ledger cannot be read: x",
            id="unreadable",
        ),
    ],
)
def test_usage_fresh(asked: StatusFacts, status: str, reason: str, message: str) -> None:
    assert conditions(status_of(asked, now=NOW))[USAGE_FRESH] == (status, reason, message)


@pytest.mark.parametrize(
    ("asked", "whole", "vms", "shown"),
    [
        pytest.param(
            facts(quota(10 * GI, {"db": 8 * GI}), takes(19 * GI // 2, db=6 * GI, web=GI), reserved=takes(GI // 2, web=GI // 2)),
            10 * GI,
            {"db": 6 * GI, "web": 3 * GI // 2},
            {"used": "10Gi", "reserved": "512Mi", "limit": "10Gi", "percent": "100%", "fullestVM": "db 75%"},
            id="what is reserved is used",
        ),
        pytest.param(
            facts(quota(), takes(1)),
            1,
            {},
            {"used": "1 byte", "reserved": "0", "limit": "none", "percent": "", "fullestVM": ""},
            id="no limit",
        ),
        pytest.param(
            facts(quota(0, {"db": 0}, annotations={"ullage.io/allow-zero": "true"}), takes(3, db=3)),
            3,
            {"db": 3},
            {"used": "3 bytes", "reserved": "0", "limit": "0", "percent": "", "fullestVM": "db 3 bytes"},
            id="nothing is allowed",
        ),
        pytest.param(
            facts(quota(10, {"gone": 5, "ahead": 5}), takes(8, gone=6, db=2), there={"db"}),
            8,
            {"db": 2},
            {"used": "8 bytes", "reserved": "0", "limit": "10 bytes", "percent": "80%", "fullestVM": ""},
            id="a deleted VM is not shown, and what it left behind counts for the namespace",
        ),
        pytest.param(
            facts(quota(10, {"db": 5}), takes(0)),
            0,
            {"db": 0},
            {"used": "0", "reserved": "0", "limit": "10 bytes", "percent": "0%", "fullestVM": "db 0%"},
            id="a VM with a limit is shown with nothing",
        ),
        pytest.param(
            facts(quota(), takes(2**70, db=2**64)),
            2**63 - 1,
            {"db": 2**63 - 1},
            {"used": "1024Ei", "reserved": "0", "limit": "none", "percent": "", "fullestVM": ""},
            id="more than there can be is written as the most",
        ),
    ],
)
def test_the_numbers(asked: StatusFacts, whole: int, vms: dict[str, int], shown: dict[str, str]) -> None:
    found = status_of(asked, now=NOW)
    usage = found.snapshot_limit_status
    assert usage is not None
    assert (usage.namespace_total_snapshot_size_usage, usage.vm_total_snapshot_size_usage) == (whole, vms)
    assert msgspec.to_builtins(found.shown) == {key: text for key, text in shown.items() if text}
    assert found.observed_generation == 1


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        pytest.param(10 * GI, "10Gi", id="the limit that was asked for"),
        pytest.param(None, "none", id="no limit"),
    ],
)
def test_before_anybody_has_counted_the_columns_are_not_empty(limit: int | None, shown: str) -> None:
    status = status_of(facts(quota(limit), ledger=None), now=NOW)
    assert (status.shown.used, status.shown.limit, status.shown.percent) == ("unknown", shown, "")
    assert status.snapshot_limit_status is None, "programs are told of no number that nobody has counted"


def test_of_five_thousand_vms_those_that_matter_are_shown_and_the_rest_is_counted() -> None:
    used = {f"{'v' * 58}{n:05}": n for n in range(1, 5001)}
    small = {f"{'v' * 58}{n:05}": 100 for n in (3, 4, 5)}
    found = status_of(facts(quota(1, small), takes(9, **used)), now=NOW)
    assert found.snapshot_limit_status is not None
    shown = found.snapshot_limit_status.vm_total_snapshot_size_usage
    assert len(shown) == 200
    assert small.keys() <= shown.keys(), "limits first"
    assert sorted(shown.values())[3:] == list(range(4804, 5001)), "then those that use the most"
    assert found.left_out == 4800
    assert len(msgspec.json.encode(found)) < 32 * 1024


def test_what_was_counted_stays_while_nobody_can_say_anything_else() -> None:
    before = status_of(facts(quota(5), takes(3)), now=NOW)
    after = status_of(facts(quota(5, status=msgspec.to_builtins(before)), problem="broken"), now=NOW)
    assert after.snapshot_limit_status == before.snapshot_limit_status
    assert (after.shown, conditions(after)[USAGE_FRESH][0]) == (before.shown, "False")


def test_the_vms_that_are_known_stay() -> None:
    known = {"db": {"uid": "u", "limit": 5}}
    found = status_of(facts(quota(5, {"db": 5}, status={"knownVMs": known}), takes(3)), now=NOW)
    assert msgspec.to_builtins(found)["knownVMs"] == known


# --- the controller --------------------------------------------------------------------------------------------------


def usage(scene: QuotaScene) -> int | None:
    found = scene.found().status.snapshot_limit_status
    return None if found is None else found.namespace_total_snapshot_size_usage


def within(scene: QuotaScene) -> str:
    found = find_condition(scene.found().status.conditions, WITHIN_QUOTA)
    return found.status if found is not None else ""


@simulated
async def test_the_status_follows_the_ledger_within_two_seconds(scene: QuotaScene) -> None:
    scene.quota(10)
    async with scene.running():
        await scene.until(lambda: scene.limits() is not None)
        for size in (4, 5, 11, 3):
            scene.count(takes(size))
            await scene.until(lambda size=size: usage(scene) == size, seconds=2.0)  # type: ignore[misc]
        await scene.quiet()
        assert scene.told.reasons == ["QuotaPassed", "WithinQuota"]
        assert scene.told.events[0][2].startswith("the snapshots of namespace team-a take 11 bytes, 1 byte more than")


@simulated
async def test_before_anybody_has_counted_no_usage_is_said(scene: QuotaScene) -> None:
    scene.quota(10)
    async with scene.running():
        await scene.until(lambda: within(scene) == "Unknown")
        await scene.quiet()
        assert usage(scene) is None


@simulated
async def test_the_first_usage_is_said_at_once(scene: QuotaScene) -> None:
    """Before there was any, a status said nothing that would have to be spared a write."""
    scene.quota(10)
    async with scene.running():
        await scene.until(lambda: scene.limits() is not None)
        scene.count(takes(4))
        began = asyncio.get_running_loop().time()
        await scene.until(lambda: usage(scene) == 4)
        assert asyncio.get_running_loop().time() - began < 0.5


@simulated
async def test_nothing_is_written_that_says_the_same_and_never_more_than_once_a_second(scene: QuotaScene) -> None:
    scene.quota(1000)
    async with scene.running():
        await scene.until(lambda: scene.limits() is not None)
        await scene.quiet()
        scene.api.calls.clear()
        for size in range(100):
            scene.count(takes(size))
            await asyncio.sleep(0.1)
        await scene.until(lambda: usage(scene) == 99, seconds=2.0)
        assert 5 <= scene.api.count(QUOTA_STATUS) <= 12, "ten seconds, one write each"
        await scene.quiet()
        scene.api.calls.clear()
        for _ in range(20):
            scene.count(takes(99))
            await asyncio.sleep(1.0)
        assert scene.api.calls == []


@simulated
async def test_a_definition_that_drops_what_it_does_not_know_is_not_written_to_for_ever(scene: QuotaScene) -> None:
    scene.api.drops = ("conditions", "shown", "observedGeneration", "leftOut", "estimates", "knownVMs")
    scene.quota(10)
    async with scene.running():
        await scene.until(lambda: scene.limits() is not None)
        scene.count(takes(4))
        await scene.until(lambda: usage(scene) == 4)
        await scene.quiet()
        scene.api.calls.clear()
        await scene.quiet(60.0)
        assert scene.api.calls == []
        scene.count(takes(5))
        await scene.until(lambda: usage(scene) == 5, seconds=2.0)


@simulated
async def test_a_deleted_vm_goes_from_the_status(scene: QuotaScene) -> None:
    scene.machine("db")
    scene.quota(10, {"db": 5})
    async with scene.running():
        await scene.until(lambda: scene.limits() is not None and scene.known() != {})
        scene.count(takes(4, db=4))
        await scene.until(lambda: vms(scene) == {"db": 4})
        scene.api.remove(VIRTUAL_MACHINES, "db", TEAM)
        await scene.until(lambda: vms(scene) == {}, seconds=2.0)
        await scene.until(lambda: scene.vm_limits() == {})
        assert usage(scene) == 4


@simulated
async def test_a_ledger_that_cannot_be_read_is_said_to_be(scene: QuotaScene) -> None:
    scene.quota(10)
    async with scene.running():
        await scene.until(lambda: scene.limits() is not None)
        scene.count(takes(4))
        await scene.until(lambda: usage(scene) == 4)
        scene.api.edit(*ledger_place(), merge={"status": {"sums": "9nonsense"}})
        await scene.until(lambda: _fresh(scene)[0] == "False")
        assert _fresh(scene)[1].startswith("the ledger cannot be read: ")
        assert usage(scene) == 4


def vms(scene: QuotaScene) -> dict[str, int]:
    found = scene.found().status.snapshot_limit_status
    return {} if found is None else dict(found.vm_total_snapshot_size_usage)


def ledger_place() -> tuple[Any, str, str]:
    return LEDGERS, f"ns-{TEAM}", NAMESPACE


def _fresh(scene: QuotaScene) -> tuple[str, str]:
    found = find_condition(scene.found().status.conditions, USAGE_FRESH)
    return (found.status, found.message) if found is not None else ("", "")


def condition(status: Any, message: str = "so") -> Condition:
    return Condition(type=WITHIN_QUOTA, status=status, message=message)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        pytest.param(None, condition("True"), None, id="a new one that is kept"),
        pytest.param(None, condition("False"), "QuotaPassed", id="a new one that is passed from the start"),
        pytest.param(condition("Unknown"), condition("False"), "QuotaPassed", id="it was not counted before"),
        pytest.param(condition("True"), condition("False"), "QuotaPassed", id="it is passed"),
        pytest.param(condition("False", "a"), condition("False", "b"), None, id="it is passed with other numbers"),
        pytest.param(condition("False"), condition("True"), "WithinQuota", id="it is not any more"),
        pytest.param(condition("False"), condition("Unknown"), None, id="nobody knows any more"),
    ],
)
def test_events(old: Condition | None, new: Condition, reason: str | None) -> None:
    found = event_for(old, new)
    assert (found and found[0].name) == reason
    assert found is None or found[1] == "so"


def test_metrics_count_quotas_by_state() -> None:
    registry = CollectorRegistry()
    metrics = QuotaMetrics(registry)
    kept = quota(5, status={"conditions": [msgspec.to_builtins(condition("True"))]})
    passed = quota(5, status={"conditions": [msgspec.to_builtins(condition("False"))]})
    for old, new in ((None, kept), (None, quota()), (kept, passed), (None, kept)):
        metrics.seen(old, new)
    text = generate_latest(registry).decode()
    for line in ('{state="passed"} 1.0', '{state="unknown"} 1.0', '{state="within"} 1.0'):
        assert f"ullage_space_quotas{line}" in text
