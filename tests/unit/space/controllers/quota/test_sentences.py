"""What the controllers of quotas log: one sentence for each run that did something."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.space.builders import GI, takes
from tests.unit.space.controllers.quota.scene import TEAM, QuotaScene
from ullage.kube.builtin.core import NAMESPACES
from ullage.quantity import Format, Quantity
from ullage.space.accounts import NAMESPACE_CELL, vm_cell
from ullage.space.api import HARVESTER_QUOTAS, NAME
from ullage.space.controllers.quota_limits import limits_note
from ullage.vms.api.machines import VIRTUAL_MACHINES

LIMITS, STATUS = "space-limits", "space-quotas"


def told(
    caplog: pytest.LogCaptureFixture,
    controller: str,
    play: Callable[[QuotaScene], Awaitable[None]],
    *,
    level: int = logging.INFO,
) -> list[str]:
    """What one of the controllers says, each sentence once, in the order in which it is first said."""

    async def main() -> None:
        scene = QuotaScene()
        scene.namespace()
        async with scene.running():
            await play(scene)
            await scene.quiet()

    with caplog.at_level(level, logger="ullage.kube.controller.controller"):
        in_virtual_time(main())
    lines = [one for one in caplog.records if vars(one).get("controller") == controller and "key" in vars(one)]
    assert {one.levelno for one in lines} <= {logging.INFO, logging.DEBUG}
    return list(dict.fromkeys(one.getMessage() for one in lines if one.levelno >= level))


def test_limits_that_come_change_and_go(caplog: pytest.LogCaptureFixture) -> None:
    async def play(scene: QuotaScene) -> None:
        scene.quota(10 * GI, {"db": 5 * GI})
        await scene.until(lambda: len(scene.limits() or {}) == 2)
        scene.edit({"namespaceTotalSnapshotSizeQuota": 0, "vmTotalSnapshotSizeQuota": {"db": None}})
        await scene.until(lambda: scene.limits() == {})
        scene.api.remove(HARVESTER_QUOTAS, NAME, TEAM)
        scene.api.remove(NAMESPACES, TEAM)
        await scene.until(lambda: scene.ledger() is None)

    assert told(caplog, LIMITS, play) == [
        "namespace team-a: quota limits carried to ledger ns-team-a: 10Gi, VM db 5Gi",
        "namespace team-a: quota limits carried to ledger ns-team-a: none",
        "namespace team-a: ledger ns-team-a deleted, since the namespace is gone",
    ]


def test_a_deleted_vm_whose_limit_goes_too(caplog: pytest.LogCaptureFixture) -> None:
    async def play(scene: QuotaScene) -> None:
        scene.machine("db")
        scene.quota(None, {"db": 5 * GI})
        await scene.until(lambda: scene.known() == {"db": "uid-db"})
        scene.api.remove(VIRTUAL_MACHINES, "db", TEAM)
        await scene.until(lambda: scene.limits() == {} and scene.known() == {})

    carried, noted = "quota limits carried to ledger ns-team-a", "VMs with a limit noted in the quota's status"
    assert told(caplog, LIMITS, play) == [
        f"namespace team-a: {carried}: VM db 5Gi; {noted}: db",
        "namespace team-a: limits of deleted VMs removed from the quota: db",
        f"namespace team-a: {carried}: none; {noted}: none",
    ]


def test_a_status_that_is_written(caplog: pytest.LogCaptureFixture) -> None:
    async def play(scene: QuotaScene) -> None:
        scene.quota(10 * GI)
        await scene.until(lambda: scene.limits() is not None)
        await scene.quiet()
        scene.count(takes(3 * GI))

    assert told(caplog, STATUS, play) == [
        "quota team-a/default-resource-quota: status written: unknown used, limit 10Gi",
        "quota team-a/default-resource-quota: status written: 3Gi used, limit 10Gi",
    ]


@pytest.mark.parametrize(
    ("controller", "sentence"),
    [
        pytest.param(LIMITS, "namespace team-a: nothing to do", id="limits"),
        pytest.param(STATUS, "quota team-a/default-resource-quota: nothing to do", id="status"),
    ],
)
def test_a_look_at_what_is_right_already_is_for_debugging(
    controller: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(scene: QuotaScene) -> None:
        scene.quota(10 * GI)
        await scene.quiet()
        caplog.clear()
        scene.api.edit(HARVESTER_QUOTAS, NAME, TEAM, merge={"metadata": {"labels": {"a": "b"}}})

    assert told(caplog, controller, play, level=logging.DEBUG) == [sentence]


def test_many_limits_are_counted() -> None:
    amount = Quantity.of(GI, Format.BINARY_SI)
    many = {NAMESPACE_CELL: amount} | {vm_cell(f"vm-{number}"): amount for number in range(1000)}
    assert limits_note(many) == "1Gi, VM vm-0 1Gi, VM vm-1 1Gi, VM vm-2 1Gi, VM vm-3 1Gi and 996 more"
