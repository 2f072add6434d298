"""A master with two seeds: quotas come, change and go, seeds are out of reach, processes are killed between any two steps."""

from __future__ import annotations

from tests.unit.projects.master_scene import MasterScene, simulated


@simulated
async def test_a_first_quota_is_divided_and_each_seed_has_its_part(scene: MasterScene) -> None:
    async with scene.running():
        scene.set_quota({"cpu": "10"})
        await scene.until(lambda: scene.limits() == {"eu": "5", "us": "5"})
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")
    assert {name: share["granted"] for name, share in scene.record().items()} == {"eu": {"cpu": "5"}, "us": {"cpu": "5"}}
