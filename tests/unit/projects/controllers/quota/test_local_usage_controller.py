"""Clusters of a seed are counted, move and go; what the seed's copies of quotas say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.projects.builders import cluster, details, quota, usage
from tests.unit.projects.controllers.seed_server import SeedServer
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, find_condition
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.quotas import LOCAL_USAGE_FRESH, PROJECT_QUOTAS, ResourceQuota, ResourceQuotaStatus
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord, MachineRecordStatus
from ullage.projects.controllers import quota_local_usage_rules as rules
from ullage.projects.controllers.quota_local_usage import LocalUsages
from ullage.projects.names import CLUSTER_UID
from ullage.projects.subjects import QuotaLookup


class Scene:
    def __init__(self) -> None:
        self.seed = SeedServer()
        clock = VirtualClock()
        self.quotas: Cache[ResourceQuota] = Cache(self.seed, PROJECT_QUOTAS, clock=clock, jitter=lambda: 0.5)
        self.clusters: Cache[Cluster] = Cache(self.seed, CLUSTERS, clock=clock, jitter=lambda: 0.5)
        self.records: Cache[MachineRecord] = Cache(self.seed, MACHINE_RECORDS, clock=clock, jitter=lambda: 0.5)
        self.usages = LocalUsages(self.seed, QuotaLookup(self.quotas), self.clusters, self.records, clock=clock)
        self.controller = self.usages.controller()

    def cluster(self, name: str, used: ResourceDetails | None = None, **given: Any) -> None:
        self.seed.put(CLUSTERS, cluster(name, used, **given))

    def record(self, name: str, *conditions: Condition, uid: str = "") -> None:
        meta = Meta(name=name, uid=f"record-{name}", annotations={CLUSTER_UID: uid or f"uid-of-{name}"})
        self.seed.put(MACHINE_RECORDS, MachineRecord(metadata=meta, status=MachineRecordStatus(conditions=conditions)))

    def quota(self, project: str = "abc", **given: Any) -> None:
        self.seed.put(PROJECT_QUOTAS, quota(project, details(cpu="5"), **given))

    def status(self, name: str = "project-abc") -> ResourceQuotaStatus:
        found: ResourceQuota = self.seed.get(PROJECT_QUOTAS, Key("", name))
        return found.status

    def fresh(self) -> tuple[str, str]:
        found = find_condition(self.status().conditions, LOCAL_USAGE_FRESH)
        assert found is not None
        return found.status, found.message


def scene(test: Callable[[Scene], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            found = Scene()
            tasks = [asyncio.create_task(one.run()) for one in (found.quotas, found.clusters, found.records, found.controller)]
            await test(found)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        in_virtual_time(main())

    run.__name__ = test.__name__
    return run


@scene
async def test_a_copy_says_what_the_clusters_of_its_project_use(found: Scene) -> None:
    found.cluster("a", usage("1", "1Gi", "0"))
    found.cluster("b", usage("2", "2Gi", "5Gi"))
    found.cluster("other", usage("9"), of="xyz")
    found.cluster("elsewhere", usage("9"), provider="eks")
    found.quota()
    found.quota("xyz")
    found.quota("none")
    await asyncio.sleep(3)
    assert found.status().local_usage == usage("3", "3Gi", "5Gi")
    assert found.status("project-xyz").local_usage == usage("9")
    assert found.status("project-none").local_usage == usage("0", "0", "0")
    assert found.fresh() == ("True", "all clusters are counted")


@scene
async def test_usage_follows_clusters_that_are_counted_moved_and_deleted(found: Scene) -> None:
    found.quota()
    found.quota("xyz")
    found.cluster("a", usage("1"))
    await asyncio.sleep(3)
    found.cluster("a", usage("4"))
    await asyncio.sleep(3)
    assert found.status().local_usage == usage("4")
    found.cluster("a", usage("4"), of="xyz")
    await asyncio.sleep(3)
    assert (found.status().local_usage, found.status("project-xyz").local_usage) == (usage("0"), usage("4"))
    found.seed.drop(CLUSTERS, Key("", "a"))
    await asyncio.sleep(3)
    assert found.status("project-xyz").local_usage == usage("0")


@scene
async def test_a_cluster_that_nobody_has_counted_is_named(found: Scene) -> None:
    found.quota()
    found.cluster("a", usage("1"))
    found.cluster("new")
    await asyncio.sleep(3)
    assert found.status().local_usage == usage("1")
    assert found.fresh() == ("False", "these clusters are not in the sum: new: its machines are not counted yet")
    found.cluster("new", usage("2"))
    await asyncio.sleep(3)
    assert (found.status().local_usage, found.fresh()[0]) == (usage("3"), "True")


STALE = Condition(
    type="UsageFresh", status="False", reason="MachinesNotRead", message="x", last_transition_time="2026-05-01T09:00:00Z"
)


@scene
async def test_a_cluster_whose_record_says_that_its_figures_are_old_is_named_until_they_are_not(found: Scene) -> None:
    found.quota()
    found.cluster("a", usage("1"))
    found.record("a")
    await asyncio.sleep(3)
    assert found.fresh()[0] == "True"
    found.record("a", STALE)
    await asyncio.sleep(3)
    status, message = found.fresh()
    assert (status, found.status().local_usage) == ("False", usage("1"))
    assert message.endswith("a: its machines cannot be read since 2026-05-01T09:00:00Z")
    before = len(found.seed.patched)
    found.record("a", msgspec.structs.replace(STALE, message="in other words"))
    await asyncio.sleep(30)
    assert len(found.seed.patched) == before
    found.record("a", msgspec.structs.replace(STALE, status="True", reason="Fresh"))
    await asyncio.sleep(3)
    assert found.fresh() == ("True", "all clusters are counted")


@scene
async def test_what_is_recorded_of_an_earlier_cluster_of_the_name_says_nothing(found: Scene) -> None:
    found.quota()
    found.cluster("a", usage("1"))
    found.record("a", STALE, uid="earlier")
    await asyncio.sleep(3)
    assert found.fresh()[0] == "True"


@scene
async def test_only_its_own_part_of_the_status_is_written(found: Scene) -> None:
    found.quota(status=ResourceQuotaStatus(global_usage=usage("7"), observed_generation=1))
    found.cluster("a", usage("1"))
    await asyncio.sleep(3)
    assert (found.status().global_usage, found.status().local_usage) == (usage("7"), usage("1"))
    sent = {key for _, merge in found.seed.patched for key in merge["status"]}
    assert sent == {"localUsage", "conditions"}


@scene
async def test_what_the_master_writes_wakes_nobody_and_other_figures_are_corrected(found: Scene) -> None:
    found.quota()
    found.cluster("a", usage("1"))
    await asyncio.sleep(3)
    before = len(found.seed.patched)
    there = found.seed.get(PROJECT_QUOTAS, Key("", "project-abc"))
    found.seed.put(
        PROJECT_QUOTAS, msgspec.structs.replace(there, status=msgspec.structs.replace(there.status, global_usage=usage("9")))
    )
    await asyncio.sleep(3)
    assert len(found.seed.patched) == before
    found.seed.put(PROJECT_QUOTAS, msgspec.structs.replace(there, status=ResourceQuotaStatus(local_usage=usage("9"))))
    await asyncio.sleep(3)
    assert found.status().local_usage == usage("1")


@scene
async def test_many_changes_are_written_once_a_second_and_the_last_is_what_is_there(found: Scene) -> None:
    found.quota()
    await asyncio.sleep(3)
    before = len(found.seed.patched)
    for number in range(500):
        found.cluster(f"c-{number % 20}", usage(str(number)))
        await asyncio.sleep(0.02)
    assert 8 <= len(found.seed.patched) - before <= 11, "ten seconds"
    await asyncio.sleep(3)
    assert found.status().local_usage == usage(str(sum(range(480, 500))))


@scene
async def test_a_change_costs_a_look_at_the_clusters_of_its_project_alone(found: Scene) -> None:
    for number in range(300):
        found.cluster(f"c-{number}", usage("1"), of=f"p-{number % 100}")
    found.quota("p-7")
    await asyncio.sleep(3)
    looked: list[str] = []
    real = rules.local_usage

    def counted(clusters: Any, project: str, **given: Any) -> Any:
        looked.extend(one.metadata.name for one in clusters)
        return real(clusters, project, **given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ullage.projects.controllers.quota_local_usage.local_usage", counted)
        found.cluster("c-7", usage("2"), of="p-7")
        await asyncio.sleep(3)
    assert set(looked) == {"c-7", "c-107", "c-207"}
    assert found.status("project-p-7").local_usage == usage("4")


@scene
async def test_how_clusters_do_wakes_nobody(found: Scene) -> None:
    found.quota()
    found.cluster("a", usage("1"))
    await asyncio.sleep(3)
    before = len(found.seed.calls), len(found.seed.patched)
    there = found.seed.get(CLUSTERS, Key("", "a"))
    found.seed.put(CLUSTERS, msgspec.structs.replace(there, status=msgspec.structs.replace(there.status, phase="Running")))
    await asyncio.sleep(3)
    assert (len(found.seed.calls), len(found.seed.patched)) == before
