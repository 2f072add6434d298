"""The guard on VolumeSnapshots: who has it, and when it goes. The controllers are the real ones, on an API in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.memory_api import DELETED, Json, MemoryApi
from tests.unit.snapshots.test_lifecycle import Cluster, both
from ullage.kube.builtin.admissionregistration import POLICY_BINDINGS
from ullage.kube.errors import Forbidden
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.guard import NAME
from ullage.snapshots.model import GUARD, Dialect


@pytest.fixture(autouse=True, params=[True, False], ids=["the only snapshotter", "beside others"])
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(Cluster, "alone", request.param)
    return bool(request.param)


def installed(dialect: Dialect[Any, Any]) -> Cluster:
    cluster = Cluster(dialect)
    cluster.api.put(POLICY_BINDINGS, {"metadata": {"name": NAME}, "spec": {}})
    return cluster


def guarded(cluster: Cluster, name: str = "snap") -> bool:
    return GUARD in cluster.snapshot(name).meta.finalizers


def patches(cluster: Cluster) -> int:
    return sum(step.startswith(f"patch {cluster.dialect.snapshots.name} ") for step in cluster.api.fuse.log)


@both
async def test_a_snapshot_of_our_driver_has_it_before_anything_is_made_and_without_one_more_write(
    dialect: Dialect[Any, Any],
) -> None:
    cluster = installed(dialect)
    cluster.driver.gate.clear()
    cluster.ask()
    async with cluster.running():
        await cluster.api.until(lambda: bool(cluster.api.bodies(dialect.records)))
        assert guarded(cluster)
    written = []
    for other in (installed(dialect), Cluster(dialect)):
        other.ask()
        await other.live(other.done)
        written.append(patches(other))
    assert written[0] == written[1]


@both
async def test_it_goes_with_the_record(dialect: Dialect[Any, Any]) -> None:
    cluster = installed(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    cluster.delete()
    await cluster.live(cluster.gone)
    assert cluster.driver.names == {}
    assert cluster.api.bodies(dialect.records) == []


@both
async def test_it_alone_holds_a_snapshot_whose_other_finalizers_and_notes_were_taken_off(dialect: Dialect[Any, Any]) -> None:
    """What a tenant can do where the policy is in force."""
    cluster = installed(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    bare = {"metadata": {"finalizers": [GUARD], "annotations": None, "labels": None, "deletionTimestamp": DELETED}}
    cluster.api.edit(dialect.snapshots, "snap", "team", merge=bare)
    assert cluster.snapshot() is not None
    await cluster.live(cluster.gone)
    assert cluster.driver.names == {}
    assert cluster.api.bodies(dialect.records) == []


@both
async def test_without_the_policy_nothing_has_it(dialect: Dialect[Any, Any]) -> None:
    """It would hold what others are to let go, and guard nothing."""
    cluster = Cluster(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    assert not guarded(cluster)


async def test_without_the_right_to_look_for_the_policy_snapshots_are_taken_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    find = MemoryApi.find

    async def refused(self: MemoryApi, kind: Any, name: str, namespace: str = "") -> Any:
        if kind is POLICY_BINDINGS:
            raise Forbidden("cannot get it", code=403)
        return await find(self, kind, name, namespace)

    monkeypatch.setattr(MemoryApi, "find", refused)
    cluster = installed(GA)
    cluster.ask()
    await cluster.live(cluster.done)
    assert not guarded(cluster)


@both
async def test_a_snapshot_from_before_the_policy_gets_it_when_a_controller_starts(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    cluster.api.put(POLICY_BINDINGS, {"metadata": {"name": NAME}, "spec": {}})
    await cluster.live(lambda: guarded(cluster))


THEIRS: list[tuple[str, Json]] = [
    ("another's record", {"driver": "theirs.example.com"}),
    ("no record, and a claim that is not there", {}),
]


@pytest.mark.parametrize("spec", [row[1] for row in THEIRS], ids=[row[0] for row in THEIRS])
@pytest.mark.parametrize("going", [False, True], ids=["that stays", "that goes"])
async def test_a_snapshot_that_is_not_ours_is_freed_of_a_guard_that_somebody_wrote(spec: Json, going: bool) -> None:
    """A tenant can write it on any snapshot, and could not take it off again."""
    cluster = installed(GA)
    held = "example.com/held"
    meta: Json = {"name": "snap", "namespace": "team", "uid": "uid-snap", "finalizers": [held, GUARD]}
    if going:
        meta["deletionTimestamp"] = DELETED
    body: Json = {"metadata": meta, "spec": {"source": {"persistentVolumeClaimName": "gone"}}}
    if spec:
        body["status"] = {"boundVolumeSnapshotContentName": "snapcontent-uid-snap"}
        ref = {"namespace": "team", "name": "snap", "uid": "uid-snap"}
        source = {"volumeHandle": "vol-9"}
        content = {"deletionPolicy": "Delete", "source": source, "volumeSnapshotRef": ref, **spec}
        record = {"metadata": {"name": "snapcontent-uid-snap"}, "spec": content, "status": {"snapshotHandle": "theirs-1"}}
        cluster.api.put(GA.records, record)
    cluster.api.put(GA.snapshots, body)
    cluster.ask("ours")
    await cluster.live(lambda: not guarded(cluster) and cluster.ready("ours"))
    assert held in cluster.snapshot().meta.finalizers
    assert guarded(cluster, "ours")
