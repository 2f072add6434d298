"""Snapshots of drivers without engines, volumes that migrate, and disks with many snapshots: the controller alone, on an API in
memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.snapshots.memory_api import DELETED, Json, MemoryApi
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, VOLUMES
from ullage.kube.builtin import core
from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Part, Wiring
from ullage.ledger.charging.stamps import CHARGED_NAMESPACE, STAMP
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import Dialect
from ullage.snapshots.slice import DIALECTS
from ullage.space.accounts import stamp_for
from ullage.space.controllers.follow.controller import AT_ONCE, SOON, Follower, payers_by
from ullage.space.controllers.follow.lookup import make_lookup, watches
from ullage.vms.api.machines import VIRTUAL_MACHINES

TEAM, LONGHORN = "team", "longhorn-system"
CUT = "2026-01-01T00:00:05Z"
both = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: str(one.name))


class CountingApi(MemoryApi):
    """How many writes are on their way, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0

    async def patch(self, *args: Any, **rest: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0)
            return await super().patch(*args, **rest)
        finally:
            self.now -= 1


@contextlib.asynccontextmanager
async def following(api: MemoryApi) -> AsyncIterator[Controller[Any]]:
    wiring = Wiring(api)  # type: ignore[arg-type]

    def make(given: Wiring) -> list[Controller[Any]]:
        lookup = make_lookup(given, backups=False)
        return [Follower(given, lookup, payers_by(lookup, lambda ledger, cell: False)).controller()]

    [controller] = wiring.made(Part(make=make, watches=watches(backups=False)))
    tasks = [asyncio.create_task(one.run()) for one in wiring.caches]
    tasks.append(asyncio.create_task(controller.run()))
    try:
        yield controller
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def holds(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  several objects at once
            await asyncio.sleep(0.005)


def machine(api: MemoryApi, name: str, *claims: str) -> None:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    api.put(
        VIRTUAL_MACHINES, {"metadata": {"name": name, "namespace": TEAM}, "spec": {"template": {"spec": {"volumes": volumes}}}}
    )


def stamp(api: MemoryApi, kind: Any, name: str, namespace: str = "") -> str | None:
    body = api.body(kind, name, namespace)
    return None if body is None else (body["metadata"].get("annotations") or {}).get(STAMP)


# --- drivers without engines -----------------------------------------------------------------------------------------


def taken(api: MemoryApi, *, size: str = "", policy: str = "Delete", going: bool = False) -> str:
    """A snapshot `snap` of the claim `disk`, bound and cut, booked with 4 KiB. Gives the name of its record."""
    meta: Json = {"name": "snap", "namespace": TEAM, "annotations": {STAMP: str(stamp_for(4096))}, "finalizers": ["held"]}
    meta |= {"deletionTimestamp": DELETED} if going else {}
    api.put(GA.snapshots, {"metadata": meta, "spec": {"source": {"persistentVolumeClaimName": "disk"}}})
    record = "snapcontent-uid-snap"
    spec: Json = {
        "volumeSnapshotRef": {"namespace": TEAM, "name": "snap", "uid": "uid-snap"},
        "driver": "csi.example.com",
        "source": {"volumeHandle": "vol"},
        "deletionPolicy": policy,
    }
    status: Json = {"snapshotHandle": "shot", "creationTime": 1767225605000000000, "restoreSize": 8192}
    notes = {"ullage.io/size": size} if size else {}
    api.put(
        GA.records,
        {"metadata": {"name": record, "annotations": notes, "finalizers": ["held"]}, "spec": spec, "status": status},
    )
    return record


@pytest.mark.parametrize(
    ("size", "takes"),
    [
        pytest.param("1024", 1024, id="what was measured after the cut"),
        pytest.param("", 8192, id="else what a volume made from it needs"),
    ],
)
async def test_what_a_snapshot_of_any_driver_takes(size: str, takes: int) -> None:
    api = MemoryApi()
    taken(api, size=size)
    async with following(api):
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(takes)))


async def test_what_was_stamped_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="ullage.kube.controller.controller")
    api = MemoryApi()
    taken(api, size=str(2**30))
    async with following(api) as controller:
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(2**30)))
        await asyncio.wait_for(controller.queue.drained(), 10)
    said = [one.getMessage() for one in caplog.records if "key" in vars(one)]
    assert said == ["snapshot team/snap: stamps written: VolumeSnapshot snap takes 1Gi"]


async def test_a_record_that_stays_is_booked_before_its_snapshot_takes_nothing() -> None:
    api = MemoryApi()
    record = taken(api, size="1024", policy="Retain", going=True)
    async with following(api):
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == "{}")
    assert stamp(api, GA.records, record) == str(stamp_for(1024))
    body = api.body(GA.records, record)
    assert body is not None
    assert body["metadata"]["annotations"][CHARGED_NAMESPACE] == TEAM
    written = [one for one in api.fuse.log if one.startswith("patch")]
    assert [one.split()[1].split(".")[0] for one in written] == ["volumesnapshotcontents", "volumesnapshots"]


async def test_a_snapshot_that_goes_pays_until_its_record_is_gone() -> None:
    api = MemoryApi()
    record = taken(api, size="1024", going=True)
    async with following(api):
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(1024)))
        api.edit(GA.records, record, merge={"metadata": {"finalizers": None, "deletionTimestamp": DELETED}})
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == "{}")


async def test_a_snapshot_that_goes_soon_after_its_record_costs_no_write() -> None:
    """Its charge goes with it."""
    api = MemoryApi()
    record = taken(api, size="1024", going=True)
    async with following(api) as controller:
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(1024)))
        before = len(api.fuse.log)
        api.edit(GA.records, record, merge={"metadata": {"finalizers": None, "deletionTimestamp": DELETED}})
        await asyncio.sleep(SOON / 4)
        assert stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(1024)), "its finalizers are there"
        api.edit(GA.snapshots, "snap", TEAM, merge={"metadata": {"finalizers": None}})
        await asyncio.sleep(SOON)
        await controller.queue.drained()
    assert api.body(GA.snapshots, "snap", TEAM) is None
    assert api.fuse.log[before:] == []


async def test_a_snapshot_is_lowered_after_its_status_is_written() -> None:
    """Two writes at the same moment meet, and one of them is refused."""
    api = MemoryApi()
    taken(api, size="1024")
    async with following(api) as controller:
        await asyncio.sleep(SOON / 4)
        await controller.queue.drained()
        assert stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(4096))
        api.edit(GA.snapshots, "snap", TEAM, merge={"status": {"readyToUse": True}})
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(1024)), seconds=SOON / 2)


async def test_a_snapshot_that_takes_more_is_raised_at_once() -> None:
    api = MemoryApi()
    taken(api, size="8192")
    async with following(api):
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(8192)), seconds=SOON / 2)


@both
async def test_a_snapshot_that_goes_before_it_had_a_record_takes_nothing(dialect: Dialect[Any, Any]) -> None:
    api = MemoryApi()
    meta = {"name": "snap", "namespace": TEAM, "annotations": {STAMP: str(stamp_for(9))}, "finalizers": ["held"]}
    source: Json = {"persistentVolumeClaimName": "disk"}
    spec = {"source": source} if dialect.name == "ga" else source
    api.put(dialect.snapshots, {"metadata": {**meta, "deletionTimestamp": DELETED}, "spec": spec})
    async with following(api):
        await holds(lambda: stamp(api, dialect.snapshots, "snap", TEAM) == "{}")


@both
async def test_what_nobody_has_stamped_is_charged_with_the_capacity_until_it_is_cut(dialect: Dialect[Any, Any]) -> None:
    """Also where the driver is foreign, and the claim waits: that is no error."""
    api = MemoryApi()
    requests = {"resources": {"requests": {"storage": "1Mi"}}}
    api.put(core.CLAIMS, {"metadata": {"name": "disk", "namespace": TEAM}, "spec": requests, "status": {"phase": "Pending"}})
    source: Json = {"persistentVolumeClaimName": "disk"}
    spec = {"source": source} if dialect.name == "ga" else source
    api.put(dialect.snapshots, {"metadata": {"name": "old", "namespace": TEAM}, "spec": spec})
    async with following(api):
        await holds(lambda: stamp(api, dialect.snapshots, "old", TEAM) == str(stamp_for(1 << 20)))


# --- engines ---------------------------------------------------------------------------------------------------------


def volume(api: MemoryApi, *engines: Json) -> None:
    """A volume `vol` of the claim `disk`, with these engines."""
    ref = {"namespace": TEAM, "name": "disk", "uid": "uid-disk"}
    spec = {"claimRef": ref, "csi": {"driver": "driver.longhorn.io", "volumeHandle": "vol"}}
    api.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": "pv"}, "spec": spec})
    api.put(core.CLAIMS, {"metadata": {"name": "disk", "namespace": TEAM}, "spec": {"volumeName": "pv"}})
    api.put(VOLUMES, {"metadata": {"name": "vol", "namespace": LONGHORN}})
    for one in engines:
        api.put(ENGINES, one)


def engine(name: str, sizes: dict[str, int], *, active: bool = True) -> Json:
    chain = ["", *sizes]
    snapshots = {
        one: {"name": one, "parent": chain[place], "size": str(size), "usercreated": True, "created": CUT}
        for place, (one, size) in enumerate(sizes.items())
    }
    head = {"name": "volume-head", "parent": chain[-1], "size": "0"}
    spec = {"volumeName": "vol", "active": active}
    status = {"snapshots": {**snapshots, "volume-head": head}}
    return {"metadata": {"name": name, "namespace": LONGHORN}, "spec": spec, "status": status}


def snapshot(api: MemoryApi, name: str, **meta: Any) -> None:
    status = {"creationTime": CUT, "size": 1}
    api.put(
        ENGINE_SNAPSHOTS,
        {"metadata": {"name": name, "namespace": LONGHORN, **meta}, "spec": {"volume": "vol"}, "status": status},
    )


async def test_while_a_volume_migrates_the_active_engine_counts() -> None:
    api = MemoryApi()
    volume(api, engine("e-0", {"a": 5}), engine("e-1", {"a": 7}, active=False))
    snapshot(api, "a")
    async with following(api):
        await holds(lambda: stamp(api, ENGINE_SNAPSHOTS, "a", LONGHORN) == str(stamp_for(5)))
        api.edit(ENGINES, "e-0", LONGHORN, merge={"spec": {"active": False}})
        api.edit(ENGINES, "e-1", LONGHORN, merge={"spec": {"active": True}})
        await holds(lambda: stamp(api, ENGINE_SNAPSHOTS, "a", LONGHORN) == str(stamp_for(7)))
    assert (api.body(ENGINE_SNAPSHOTS, "a", LONGHORN) or {})["metadata"]["annotations"][CHARGED_NAMESPACE] == TEAM


async def test_a_volume_that_nobody_claims_is_in_no_ledger() -> None:
    api = MemoryApi()
    volume(api, engine("e-0", {"a": 5}))
    api.edit(core.PERSISTENT_VOLUMES, "pv", merge={"spec": {"claimRef": None}})
    snapshot(api, "a")
    taken(api, size="1024")  # what comes after it, and tells that it was looked at
    async with following(api) as controller:
        await holds(lambda: stamp(api, GA.snapshots, "snap", TEAM) == str(stamp_for(1024)))
        await controller.queue.drained()
    assert stamp(api, ENGINE_SNAPSHOTS, "a", LONGHORN) is None


async def test_objects_outside_of_the_engines_namespace_are_nobodys() -> None:
    """There anybody may make them."""
    api = MemoryApi()
    volume(api, engine("e-0", {"a": 5}))
    api.put(ENGINE_SNAPSHOTS, {"metadata": {"name": "a", "namespace": TEAM}, "spec": {"volume": "vol"}})
    api.put(ENGINES, {**engine("fake", {"a": 0}), "metadata": {"name": "fake", "namespace": TEAM}})
    snapshot(api, "a")
    async with following(api):
        await holds(lambda: stamp(api, ENGINE_SNAPSHOTS, "a", LONGHORN) == str(stamp_for(5)))
    assert stamp(api, ENGINE_SNAPSHOTS, "a", TEAM) is None


async def test_a_disk_with_many_snapshots_is_plugged_with_few_writes_at_a_time() -> None:
    api, names = CountingApi(), [f"s{number:03}" for number in range(250)]
    volume(api, engine("e-0", dict.fromkeys(names, 1)))
    for name in names:
        snapshot(api, name)
    async with following(api):
        await holds(lambda: all(stamp(api, ENGINE_SNAPSHOTS, name, LONGHORN) == str(stamp_for(1)) for name in names))
        before = len(api.fuse.log)
        machine(api, "db", "disk")
        await holds(lambda: all(stamp(api, ENGINE_SNAPSHOTS, name, LONGHORN) == str(stamp_for(1, ["db"])) for name in names))
        assert len(api.fuse.log) - before == len(names), "one write for each"
    assert 1 < api.most <= AT_ONCE


async def test_17_vms_share_a_disk_and_16_pay() -> None:
    api = MemoryApi()
    volume(api, engine("e-0", {"a": 5}))
    snapshot(api, "a")
    for number in range(17):
        machine(api, f"vm-{number:02}", "disk")
    wanted = str(stamp_for(5, [f"vm-{number:02}" for number in range(16)]))
    async with following(api):
        await holds(lambda: stamp(api, ENGINE_SNAPSHOTS, "a", LONGHORN) == wanted)


@both
async def test_a_snapshot_is_let_go_of_which_nothing_is_left(dialect: Dialect[Any, Any]) -> None:
    """Engine, engine Snapshot and record were quicker than whoever follows."""
    api = MemoryApi()
    volume(api, engine("e-0", {}))
    meta = {"name": "snap", "namespace": TEAM, "annotations": {STAMP: str(stamp_for(9))}, "finalizers": ["held"]}
    source: Json = {"persistentVolumeClaimName": "disk"}
    spec = {"source": source} if dialect.name == "ga" else source
    api.put(dialect.snapshots, {"metadata": {**meta, "deletionTimestamp": DELETED}, "spec": spec})
    async with following(api):
        await holds(lambda: stamp(api, dialect.snapshots, "snap", TEAM) == "{}")
