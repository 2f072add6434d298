"""A user cluster that cannot be read, from its seed to the quota on the master: real controllers, in virtual time."""

from __future__ import annotations

import asyncio

import msgspec

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.projects.master_scene import bugs_fail
from tests.unit.projects.platform_scene import CLUSTER, NAME, PlatformScene
from ullage.kube.objects import find_condition
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuotaStatus


def said(scene: PlatformScene) -> ResourceQuotaStatus:
    return msgspec.convert(scene.api.body(PROJECT_QUOTAS, NAME), type=PROJECT_QUOTAS.type).status


def conditions(scene: PlatformScene) -> dict[str, str]:
    found = said(scene).conditions
    return {one.type: one.status for one in found if one.type in ("WithinQuota", "UsageFresh")}


WELL = {"WithinQuota": "True", "UsageFresh": "True"}


def test_a_cluster_out_of_reach_is_not_said_to_be_within_the_quota_until_it_is_read_again() -> None:
    async def run() -> None:
        scene = PlatformScene("fra", quota=9)
        scene.set_quota(9)
        async with scene.running():
            assert (await scene.seeds["fra"].ask("a")).allowed
            await scene.until("it is counted", lambda: conditions(scene) == WELL and said(scene).shown.cpu == "1/9")
            user = scene.seeds["fra"].seed.others[CLUSTER]
            user.cut_off()
            await asyncio.sleep(90)
            assert conditions(scene) == {"WithinQuota": "Unknown", "UsageFresh": "False"}
            within = find_condition(said(scene).conditions, "WithinQuota")
            assert within is not None
            assert within.message.startswith(
                "project abc may use more than its figures say: seed fra: the figures of these clusters are not of now, and"
                " their MachineRecords on the seed say why: c: its machines cannot be read since 2026-"
            )
            assert said(scene).shown.cpu == "1/9", "the figures of before are shown"
            assert said(scene).seeds[0].incomplete_since
            user.come_back()
            await scene.until("it is read again", lambda: conditions(scene) == WELL)
            assert not said(scene).seeds[0].incomplete_since

    bugs_fail(lambda: in_virtual_time(run()))
