"""What is left on seeds, and kept for them, after somebody was killed or did things in the wrong order."""

from __future__ import annotations

import pytest

from tests.unit.projects.master_scene import MasterScene, simulated
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.escrow.progress import left_behind
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.quantity import Quantity

SPEC = {"subject": {"name": "xyz", "kind": "project"}, "quota": {"cpu": "3"}}


@simulated
async def test_a_copy_whose_quota_went_while_its_maker_was_killed_is_removed(scene: MasterScene) -> None:
    left = {"name": "project-xyz", "annotations": {"ullage.io/copy-of": "uid-of-before"}}
    scene.seeds["eu"].put(PROJECT_QUOTAS, {"metadata": left, "spec": SPEC})
    scene.seeds["us"].put(PROJECT_QUOTAS, {"metadata": {"name": "project-xyz"}, "spec": SPEC})
    async with scene.running():
        await scene.until(lambda: scene.seeds["eu"].body(PROJECT_QUOTAS, "project-xyz") is None)
        await scene.quiet()
        assert scene.seeds["us"].body(PROJECT_QUOTAS, "project-xyz") is not None, "what others have made is theirs"


@simulated
async def test_a_copy_of_a_quota_that_is_there_stays(scene: MasterScene) -> None:
    scene.set_quota({"cpu": "4"})
    async with scene.running():
        await scene.until(lambda: scene.copies() == {"eu": {"cpu": "4"}, "us": {"cpu": "4"}})
    async with scene.running():  # begins with copies, and may hear of them before it hears of the quota
        await scene.quiet(60)
        assert scene.copies() == {"eu": {"cpu": "4"}, "us": {"cpu": "4"}}


@simulated
async def test_what_a_seed_keeps_that_was_removed_before_it_was_drained_is_told_with_the_way_out(scene: MasterScene) -> None:
    scene.set_quota({"cpu": "4"})
    async with scene.running():
        await scene.until(lambda: scene.condition("Ready").get("status") == "True")
        scene.remove_seed("us")
        await scene.until(lambda: "of seeds that were removed us keeps cpu 2 cores" in scene.condition("Ready")["message"])
        assert "drain-seed NAME --machines-gone" in scene.condition("Ready")["message"]
        scene.add_seed("us")
        scene.annotate_seed("us", drained="gone")
        scene.seeds["us"].cut_off()
        await scene.quiet(30)
        scene.remove_seed("us")
        await scene.until(lambda: scene.limits()["eu"] == "4", seconds=200)
        await scene.until(lambda: "removed" not in scene.condition("Ready")["message"])


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        pytest.param({"eu", "us"}, "", id="all are there"),
        pytest.param({"us"}, "", id="one that has nothing is forgotten"),
        pytest.param({"eu"}, "of seeds that were removed us keeps cpu 3 cores: nobody else gets that.", id="one that has some"),
    ],
)
def test_what_is_kept_for_seeds_that_are_no_more(seeds: set[str], said: str) -> None:
    none, some = (Part(Quantity.of(one), Quantity.of(one)) for one in (0, 3))
    record = Escrow({"eu": Share(1, parts={"cpu": none}), "us": Share(1, parts={"cpu": some})})
    found = left_behind(record, seeds)
    assert found.startswith(said) if said else not found
