"""Drivers that list what they have: what is missing twice in a row is lost, and said to be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.snapshots.memory_api import Json, MemoryApi, Told
from ullage.errors import Impossible, NotNow, UllageError
from ullage.kube.builtin import core
from ullage.kube.slices import Part, Wiring
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.backends.base import NO_SECRETS, BackendSnapshot, Secrets
from ullage.snapshots.lookup import kinds_of
from ullage.snapshots.model import Dialect
from ullage.snapshots.settings import Settings
from ullage.snapshots.slice import DIALECTS, Options, make_controllers

DRIVER = "csi.example.com"
CUT = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
both = pytest.mark.parametrize("dialect", [GA, PROTOTYPE], ids=lambda one: str(one.name))


class Driver:
    """Has `handles`, and shows them in lists, unless `hides` says that a list, by its number, lacks them."""

    driver = DRIVER

    def __init__(self, node: str = "") -> None:
        self.node = node
        self.handles = {"shot-1"}
        self.lists = 0
        self.hides: frozenset[int] = frozenset()
        self.error: UllageError | None = None
        self.asked: list[Secrets] = []
        self.finds = 0

    async def list(self, volume: str = "", *, secrets: Secrets = NO_SECRETS) -> AsyncIterator[BackendSnapshot]:
        self.lists += 1
        self.asked.append(secrets)
        if self.error is not None:
            raise self.error
        for handle in sorted(self.handles) if self.lists not in self.hides else ():
            yield _shot(handle)

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        self.finds += 1
        self.asked.append(secrets)
        return _shot(handle) if handle in self.handles else None


def _shot(handle: str) -> BackendSnapshot:
    return BackendSnapshot(handle=handle, volume="vol-1", cut=CUT, ready=True, restore_size=4096)


@dataclass
class Cluster:
    """A VolumeSnapshot `team/snap` that is ready, bound to its record."""

    dialect: Dialect[Any, Any] = GA
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    driver: Driver = field(default_factory=Driver)
    node: str = ""  # of the record
    class_name: str = "daily"

    def __post_init__(self) -> None:
        record, snapshot = self._ga() if self.dialect is GA else self._prototype()
        self.api.put(self.dialect.records, {"metadata": self._meta("record", self.node), **record})
        self.api.put(self.dialect.snapshots, {"metadata": {"name": "snap", "namespace": "team", "uid": "uid-snap"}, **snapshot})
        self.api.put(GA.classes, {"metadata": {"name": "daily"}, "driver": DRIVER, "deletionPolicy": "Delete"})

    def _meta(self, name: str, node: str) -> Json:
        notes = {"ullage.io/source-volume": "vol-1", **({"ullage.io/node": node} if node else {})}
        if "stamped" in self.class_name:
            notes["ullage.io/class-parameters"] = "{}"
        return {"name": name, "annotations": notes, "finalizers": [self.dialect.record_finalizer]}

    def _ga(self) -> tuple[Json, Json]:
        record = _content("shot-1", volumeSnapshotClassName=self.class_name, volumeSnapshotRef=_REF)
        bound = {"boundVolumeSnapshotContentName": "record", "readyToUse": True}
        return record, {"spec": {"source": {"persistentVolumeClaimName": "db"}}, "status": bound}

    def _prototype(self) -> tuple[Json, Json]:
        moment = "2026-01-01T00:00:06Z"
        ready = {"type": "Ready", "status": "True", "reason": "Usable", "message": "", "lastTransitionTime": moment}
        status = {"phase": "ready", "creationTimestamp": "2026-01-01T00:00:05Z", "conditions": [ready]}
        source = {"driver": DRIVER, "snapshotHandle": "shot-1"}
        spec = {"persistentVolumeClaimName": "db", "snapshotDataName": "record"}
        record = {"spec": {"volumeSnapshotRef": _REF, "csiVolumeSnapshotSource": source}, "status": status}
        return record, {"spec": spec, "status": {**status, "snapshotDataName": "record"}}

    def other(self) -> None:
        """One more record, so that there is something to list in every case."""
        self.driver.handles.add("shot-2")
        self.api.put(
            GA.records,
            {
                "metadata": self._meta("other", self.driver.node),
                **_content("shot-2", volumeSnapshotRef={"namespace": "team", "name": "other"}),
            },
        )

    def state(self) -> Any:
        body = self.api.body(self.dialect.snapshots, "snap", "team")
        kind = self.dialect.snapshots
        return self.dialect.read_snapshot(msgspec.json.decode(msgspec.json.encode(body), type=kind.type)).state

    @contextlib.asynccontextmanager
    async def running(self, *, interval: float = 0.01) -> AsyncIterator[None]:
        wiring = Wiring(self.api)  # type: ignore[arg-type]
        wiring.recorder = lambda name: self.told  # type: ignore[method-assign,assignment,return-value]
        settings = Settings(drivers={DRIVER: "here"}, alone=True, audit_interval=interval)
        driver: Any = self.driver
        options = Options(settings=settings, backends=lambda given: {DRIVER: driver})
        part = Part(make=lambda given: make_controllers(given, options), watches=kinds_of(DIALECTS))
        controllers = wiring.made(part)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in controllers]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def listed(self, times: int) -> None:
        """Until the driver was asked for that many more lists, and what follows from all but the last is done."""
        wanted = self.driver.lists + times + 1
        async with asyncio.timeout(10):
            while self.driver.lists < wanted:  # noqa: ASYNC110  a driver tells nobody
                await asyncio.sleep(0.002)


_REF = {"namespace": "team", "name": "snap", "uid": "uid-snap"}


def _content(handle: str, **spec: Any) -> Json:
    status = {"snapshotHandle": handle, "readyToUse": True, "creationTime": int(CUT.timestamp()) * 10**9, "restoreSize": 4096}
    given = {"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": "vol-1"}, **spec}
    return {"spec": given, "status": status}


@both
async def test_a_snapshot_that_two_lists_lack_is_lost_and_ready_again_when_it_is_back(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    async with cluster.running():
        await cluster.listed(2)
        assert cluster.state().ready
        cluster.driver.handles.clear()
        await cluster.api.until(lambda: cluster.state().lost)
        assert not cluster.state().ready
        said = f"{DRIVER} does not have it any more, and nothing can be restored from it: delete it, and take another"
        assert cluster.state().problem.message == said
        assert ("Warning", "SnapshotLost", said) in cluster.told.events
        cluster.driver.handles.add("shot-1")
        await cluster.api.until(lambda: cluster.state().ready)
        assert cluster.state().problem is None


async def test_one_list_that_lacks_it_says_nothing() -> None:
    cluster = Cluster()
    cluster.driver.hides = frozenset({1, 3, 5, 7})
    async with cluster.running():
        await cluster.listed(8)
    assert cluster.driver.finds == 0
    assert cluster.state().ready


async def test_a_snapshot_that_no_list_shows_and_that_is_there_all_the_same_is_not_lost() -> None:
    cluster = Cluster()
    cluster.driver.hides = frozenset(range(100))
    async with cluster.running():
        await cluster.listed(8)
    assert cluster.driver.finds >= 1
    assert cluster.state().ready


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(NotNow("the driver is away"), id="a list that fails counts for nothing"),
        pytest.param(Impossible("csi.example.com cannot list snapshots"), id="a driver that cannot list is not audited"),
    ],
)
async def test_without_a_list_nothing_is_lost(error: UllageError) -> None:
    cluster = Cluster()
    cluster.driver.error = error
    cluster.driver.handles.clear()
    async with cluster.running():
        await cluster.listed(4)
    assert cluster.state().ready


@pytest.mark.parametrize(
    ("serves", "node", "class_name", "lost"),
    [
        pytest.param("here", "here", "daily", True, id="a snapshot of the node that is served"),
        pytest.param("here", "there", "daily", False, id="another node's snapshots are not known here"),
        pytest.param("here", "", "daily", False, id="nor is one whose node nobody knows"),
        pytest.param("", "there", "daily", True, id="a driver that serves all nodes knows them all"),
        pytest.param("", "", "gone", False, id="a class that is gone told how to ask"),
        pytest.param("", "", "gone, but stamped", True, id="a class that is gone, and stamped on the record"),
    ],
)
async def test_what_is_audited(serves: str, node: str, class_name: str, lost: bool) -> None:
    cluster = Cluster(driver=Driver(serves), node=node, class_name=class_name)
    cluster.driver.handles.clear()
    cluster.other()
    async with cluster.running():
        await cluster.listed(4)
        if lost:
            await cluster.api.until(lambda: cluster.state().lost)
    assert cluster.state().lost is lost


async def test_lists_are_asked_for_with_the_secret_that_the_class_names_for_them() -> None:
    cluster = Cluster()
    names = {f"csi.storage.k8s.io/snapshotter-list-secret-{half}": "lists" for half in ("name", "namespace")}
    cluster.api.edit(GA.classes, "daily", merge={"parameters": names})
    cluster.api.put(core.SECRETS, {"metadata": {"name": "lists", "namespace": "lists"}, "data": {"password": "cGFzcw=="}})
    cluster.driver.handles.clear()
    async with cluster.running():
        await cluster.api.until(lambda: cluster.state().lost)
    assert {one.values["password"] for one in cluster.driver.asked} == {"pass"}


async def test_an_interval_of_zero_asks_for_no_lists() -> None:
    cluster = Cluster()
    async with cluster.running(interval=0):
        # The labels are put on by a controller that began at the same time.
        await cluster.api.until(lambda: bool(cluster.api.bodies(GA.snapshots)[0]["metadata"].get("labels")))
    assert cluster.driver.lists == 0
