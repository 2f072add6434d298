"""A user cluster with more than is held of one: what its Cluster says stays, and an Event says why; others go on."""

from __future__ import annotations

import asyncio

from tests.unit.projects.builders import usage
from tests.unit.projects.controllers.cluster.test_usage_controller import FAILED, Scene, machine, scene
from ullage.kube.cache.indexer import Key
from ullage.kube.clusters.cluster import Cluster
from ullage.kube.kinds import Meta
from ullage.kube.read_limits import KIB, ReadLimits
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.templates import SET_TEMPLATES, SetTemplate


@scene
async def test_a_cluster_that_grows_too_large_keeps_its_usage_and_is_told_until_it_has_shrunk(found: Scene) -> None:
    found.clusters._limits = ReadLimits(held=64 * KIB)
    large = found.cluster("c-1", machine("a"))
    found.record()
    small = found.cluster("c-2", machine("s", of="c-2"))
    await asyncio.sleep(3)
    assert found.used() == usage("1", "1Gi", "10Gi")
    for number in range(20):
        large.put(MACHINES, machine(f"b-{number}"))
    await asyncio.sleep(60)
    frozen = found.used()
    small.put(MACHINES, machine("t", of="c-2"))
    await asyncio.sleep(30)
    assert found.used("c-2") == usage("2", "2Gi", "20Gi")
    assert found.used() == frozen != usage("21", "21Gi", "210Gi")
    assert [reason for _, reason, _ in found.told.events] == [FAILED]
    note = found.told.events[0][2]
    assert note.startswith(
        "its machines cannot be read, and the usage is that of before: cluster c-1: what is watched there takes "
    )
    assert "64 KiB are allowed; what was read before stays. Delete some there, or allow more" in note
    assert found.fresh()[:2] == ("False", "MachinesNotRead")
    for number in range(18):
        large.drop(MACHINES, Key("kube-system", f"b-{number}"))
    await asyncio.sleep(60)
    assert found.fresh()[0] == "True"
    assert found.used() == usage("3", "3Gi", "30Gi")
    assert len(found.told.events) == 1


@scene
async def test_a_cluster_that_is_too_large_by_its_sets_is_counted_and_told(found: Scene) -> None:
    def follow(name: str, cluster: Cluster | None) -> None:
        if cluster is not None:
            cluster.cache(SET_TEMPLATES)

    found.clusters._limits = ReadLimits(held=64 * KIB)
    found.clusters.watch(SET_TEMPLATES)
    found.clusters.handle(follow)
    large = found.cluster("c-1", machine("a"))
    found.record()
    await asyncio.sleep(3)
    for number in range(20):
        large.put(SET_TEMPLATES, SetTemplate(metadata=Meta(name=f"s-{number}", namespace="kube-system", uid=f"s-{number}")))
    await asyncio.sleep(20)
    assert found.told.events == [], "it may be over in a moment"
    large.drop(MACHINES, Key("kube-system", "a"))
    await asyncio.sleep(60)
    assert found.used() == usage("0", "0", "0"), "machines are counted all the same"
    assert [reason for _, reason, _ in found.told.events] == ["ClusterNotRead"]
    assert found.fresh() is None, "the figures are of now"
    note = found.told.events[0][2]
    assert note.startswith(
        "its machines are counted, and not all else is read there: machinesets.cluster.k8s.io: cluster c-1: "
    )
    assert "64 KiB are allowed; what was read before stays. Delete some there, or allow more" in note
    for number in range(18):
        large.drop(SET_TEMPLATES, Key("kube-system", f"s-{number}"))
    await asyncio.sleep(60)
    assert len(found.told.events) == 1
    for number in range(20):
        large.put(SET_TEMPLATES, SetTemplate(metadata=Meta(name=f"t-{number}", namespace="kube-system", uid=f"t-{number}")))
    await asyncio.sleep(60)
    assert len(found.told.events) == 2, "it was well in between"
