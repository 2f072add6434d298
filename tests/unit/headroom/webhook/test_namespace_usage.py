"""What a share that is lowered is compared with: what the ledger has now, or what stands on the objects, and never both."""

from __future__ import annotations

import asyncio

from tests.unit.headroom.builders import TEAM, Json, machine
from tests.unit.headroom.scene import VIRTUAL_MACHINES, Scene, simulated
from ullage.headroom.shares import MAINTENANCE_QUOTA, RESOURCE_QUOTA
from ullage.kube.builtin.core import NAMESPACES


def namespace(cpu: str | None) -> Json:
    """Half of so many CPUs is for VMs; None: there is no quota."""
    quota = {RESOURCE_QUOTA: f'{{"limit":{{"limitsCpu":"{cpu}"}}}}', MAINTENANCE_QUOTA: '{"limit":{"limitsCpuPercent":50}}'}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "annotations": {} if cpu is None else quota}}


@simulated
async def test_what_is_booked_and_there_as_well_counts_once(scene: Scene) -> None:
    scene.limits(vms={"cpu": "2"}, maintenance={"cpu": "2"})
    async with scene.served():
        assert (await scene.submit(NAMESPACES, namespace("4"))).allowed
        for name in ("one", "two"):
            assert (await scene.submit(VIRTUAL_MACHINES, machine(name, strategy="Always"))).allowed
        await asyncio.sleep(1)  # caches have both; the second one is still pending in the ledger
        assert scene.counted()["compute/vms"]["cpu"] == "2"
        decided = await scene.submit(NAMESPACES, namespace("3"))
        assert decided.message.startswith(
            "what runs in namespace team takes 2 cores (1 core of it reserved) of cpu, and 1.5 cores would be left for it"
        )
        assert (await scene.submit(NAMESPACES, namespace("5"))).allowed


@simulated
async def test_a_booking_counts_at_once(scene: Scene) -> None:
    """A look at a cache would not show it yet."""
    scene.limits(vms={"cpu": "2"}, maintenance={"cpu": "2"})
    async with scene.served():
        assert (await scene.submit(NAMESPACES, namespace("4"))).allowed
        assert (await scene.submit(VIRTUAL_MACHINES, machine("one", strategy="Always"))).allowed
        decided = await scene.submit(NAMESPACES, namespace("1"))
        assert (decided.code, "takes 1 core (1 core of it reserved) of cpu" in decided.message) == (403, True)


@simulated
async def test_before_there_is_a_ledger_what_stands_on_the_objects_counts(scene: Scene) -> None:
    async with scene.served():
        assert (await scene.submit(NAMESPACES, namespace(None))).allowed
        for name in ("one", "two"):
            assert (await scene.submit(VIRTUAL_MACHINES, machine(name, strategy="Always"))).allowed
        await asyncio.sleep(1)
        decided = await scene.submit(NAMESPACES, namespace("3"))
        assert "takes 2 cores of cpu, and 1.5 cores would be left" in decided.message
        assert (await scene.submit(NAMESPACES, namespace("4"))).allowed
