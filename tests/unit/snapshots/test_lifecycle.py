"""Snapshots from the request to the last trace of them: the real controllers on an API in memory, with a driver that can
fail in every way, and a process that dies before and after every single effect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
import pytest

from tests.unit.snapshots.memory_api import DELETED, Crash, Json, MemoryApi, Told
from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.kube.backoff import Backoff
from ullage.kube.builtin import core, storage
from ullage.kube.client.client import WatchEvent
from ullage.kube.controller.controller import Controller
from ullage.kube.errors import AlreadyExists, Conflict
from ullage.kube.slices import Part, Wiring
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import ANNOTATION, PROTOTYPE
from ullage.snapshots.backends.base import NO_SECRETS, BackendSnapshot, Creation, InProgress, Secrets, VolumeHandle
from ullage.snapshots.controllers import record_sync
from ullage.snapshots.controllers.claim_release import ClaimReleaser
from ullage.snapshots.controllers.record_sync import RecordSyncer
from ullage.snapshots.controllers.snapshot_bind import Binder, OtherSnapshotter
from ullage.snapshots.lookup import SnapshotLookup, kinds_of, snapshot_lookup, volume_lookup
from ullage.snapshots.metrics import Metrics
from ullage.snapshots.model import GROUP_HANDLE, Dialect
from ullage.snapshots.settings import Settings
from ullage.snapshots.volume_queue import RecordKey, VolumeQueues

DRIVER = "csi.example.com"
CUT = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
DIALECTS: tuple[Dialect[Any, Any], ...] = (GA, PROTOTYPE)
both = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: str(one.name))


@pytest.fixture(autouse=True, params=[True, False], ids=["the only snapshotter", "beside others"])
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Everything here holds with `--only-snapshotter` and without."""
    monkeypatch.setattr(Cluster, "alone", request.param)
    return bool(request.param)


class Driver:
    """Snapshots by their names, behind handles that say nothing of names. Only asking again tells."""

    driver = DRIVER

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.names: dict[str, str] = {}  # handle → name
        self.made = 0
        self.running: dict[str, int] = {}
        self.most = 0  # creations of one volume at a time
        self.ready = True
        self.before: Callable[[], None] = lambda: None  # may raise: nothing is made
        self.refuses: Callable[[Creation], None] = lambda creation: None  # the same, by what is asked for
        self.after: Callable[[], None] = lambda: None  # may raise: it is made, and the answer is lost
        self.deleting: Callable[[], None] = lambda: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()  # it was asked for a snapshot, and may wait for the gate
        self.head: int | None = None  # the bytes that a snapshot would take now
        self.measured: Callable[[], None] = lambda: None  # may raise: it cannot be told
        self.sizes: dict[str, int] = {}  # by handle
        self.weighing: Callable[[], None] = lambda: None  # may raise: its size cannot be told

    async def create(self, creation: Creation) -> BackendSnapshot:
        fuse = self._cluster.api.fuse
        fuse.before(f"make {creation.name}")
        volume = creation.volume.handle
        self.running[volume] = self.running.get(volume, 0) + 1
        self.most = max(self.most, self.running[volume])
        self.begun.set()
        try:
            await self.gate.wait()
            self.before()
            self.refuses(creation)
        finally:
            self.running[volume] -= 1
        handle = next((handle for handle, name in self.names.items() if name == creation.name), "")
        if not handle:
            self.made += 1
            handle = f"shot-{self.made}"
            self.names[handle] = creation.name
            if self.head is not None:
                self.sizes[handle] = self.head
        fuse.after()
        self.after()
        return BackendSnapshot(handle=handle, volume=volume, cut=CUT, ready=self.ready, restore_size=4096)

    async def undo(self, creation: Creation) -> None:
        with contextlib.suppress(Impossible):
            await self.delete((await self.create(creation)).handle)

    async def delete(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        self._cluster.api.fuse.before(f"unmake {handle}")
        self.deleting()
        self.names.pop(handle, None)
        self._cluster.api.fuse.after()

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        if handle not in self.names:
            return None
        return BackendSnapshot(handle=handle, volume="vol-1", cut=CUT, ready=self.ready, restore_size=4096)

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        self._cluster.api.fuse.log.append(f"measure {volume.handle}")
        self.measured()
        return self.head

    async def size(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> int | None:
        self.weighing()
        return self.sizes.get(handle)


@dataclass
class Cluster:
    alone: ClassVar[bool] = True
    for_others: ClassVar[float] = 0.0  # seconds that another snapshotter has to make a record
    request_seconds: ClassVar[float] = 75.0  # until no request of the time before can change anything
    books: ClassVar[bool] = True  # its process may say what snapshots take
    dialect: Dialect[Any, Any]
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    after_refusal: Backoff = field(default_factory=lambda: Backoff(first=3600.0, cap=3600.0))

    def __post_init__(self) -> None:
        self.driver = Driver(self)
        self.syncer: RecordSyncer | None = None  # of the process that runs now
        self.api.put(storage.STORAGE_CLASSES, {"metadata": {"name": "fast"}, "provisioner": DRIVER})
        default = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
        daily = {"metadata": {"name": "daily", "annotations": default}, "driver": DRIVER, "deletionPolicy": "Delete"}
        self.api.put(GA.classes, daily)
        self.claim()

    # --- what is there ---

    def claim(self) -> None:
        ref = {"namespace": "team", "name": "db", "uid": "uid-db"}
        spec = {"claimRef": ref, "csi": {"driver": DRIVER, "volumeHandle": "vol-1"}, "storageClassName": "fast"}
        self.api.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": spec, "status": {"phase": "Bound"}})
        wanted = {"volumeName": "pv-1", "storageClassName": "fast"}
        claim = {"metadata": {"name": "db", "namespace": "team"}, "spec": wanted, "status": {"phase": "Bound"}}
        self.api.put(core.CLAIMS, claim)

    def ask(self, name: str = "snap", *, claim: str = "db", uid: str = "") -> None:
        source: Json = {"persistentVolumeClaimName": claim}
        spec: Json = {"source": source} if self.dialect.name == "ga" else source
        meta = {"name": name, "namespace": "team", "uid": uid or f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.api.put(self.dialect.snapshots, {"metadata": meta, "spec": spec})

    def delete(self, name: str = "snap") -> None:
        if self.snapshot(name) is not None:
            self.api.remove(self.dialect.snapshots, name, "team")

    # --- what is seen ---

    def snapshot(self, name: str = "snap") -> Any:
        body = self.api.body(self.dialect.snapshots, name, "team")
        return None if body is None else self.dialect.read_snapshot(_decoded(self.dialect.snapshots, body))

    def ready(self, name: str = "snap") -> bool:
        found = self.snapshot(name)
        return found is not None and found.state.ready

    def problem(self, name: str = "snap") -> str:
        found = self.snapshot(name)
        return found.state.problem.message if found is not None and found.state.problem else ""

    def held(self) -> list[str]:
        body = self.api.body(core.CLAIMS, "db", "team") or {"metadata": {}}
        return list(body["metadata"].get("finalizers") or [])

    def done(self) -> bool:
        """Ready, and the claim is free again."""
        return self.ready() and not self.held()

    def gone(self) -> bool:
        return self.snapshot() is None

    def free(self) -> bool:
        return not self.held()

    def settled(self) -> bool:
        """Gone, or ready with nothing left to do."""
        found = self.snapshot()
        return found is None or (found.state.ready and found.meta.deletion_timestamp is None and not self.held())

    # --- the processes ---

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """One life of a controller process; ends when the block does, or with `Crash`."""
        wiring = Wiring(self.api)  # type: ignore[arg-type]
        controllers = wiring.made(Part(make=self._controllers, watches=kinds_of(DIALECTS)))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in controllers]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        settings, queues = Settings(drivers={DRIVER: "here"}, alone=self.alone), VolumeQueues()
        lookups = [snapshot_lookup(wiring, one) for one in DIALECTS]
        volumes, metrics = volume_lookup(wiring), Metrics(clock=wiring.clock)
        for lookup in lookups:
            lookup.enqueue_records(queues)
        told: Any = self.told
        binders = [
            Binder(
                wiring.client,
                lookup,
                volumes,
                settings=settings,
                queues=queues,
                recorder=told,
                metrics=metrics,
                others=OtherSnapshotter(self.for_others),
                request_seconds=self.request_seconds,
                lookups=lookups,
            )
            for lookup in lookups
        ]
        backends: Any = {DRIVER: self.driver}
        worker = self.syncer = RecordSyncer(
            wiring.client,
            lookups,
            backends,
            queues=queues,
            recorder=told,
            backoff=Backoff(first=0.01, cap=0.05),
            after_refusal=self.after_refusal,
            books=self.books,
        )
        keeper = ClaimReleaser(wiring.client, lookups, volumes, settings=settings)
        more = self.more(wiring, lookups)
        return [*(binder.controller() for binder in binders), worker.controller(), keeper.controller(), *more]

    def more(self, wiring: Wiring, lookups: list[SnapshotLookup]) -> list[Controller[Any]]:
        """Controllers that run besides."""
        return []

    async def live(self, until: Callable[[], bool]) -> None:
        """Lives until something holds, through as many deaths as there are."""
        while True:
            try:
                async with self.running():
                    await self.api.until(until)
                return
            except* Crash:
                self.driver.running.clear()


def _decoded(kind: Any, body: Json) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind.type)


@both
async def test_a_snapshot_is_made_and_goes_without_a_trace(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    found = cluster.snapshot()
    assert (found.state.cut, found.state.restore_size, found.state.problem) == (CUT, 4096, None)
    assert list(cluster.driver.names.values()) == ["snapshot-uid-snap"]
    assert found.meta.labels == {"ullage.io/claim": "db", "ullage.io/volume": "pv-1"}
    cluster.delete()
    await cluster.live(cluster.gone)
    assert cluster.driver.names == {}
    assert cluster.api.bodies(dialect.records) == []
    assert cluster.held() == []


@both
async def test_a_snapshot_that_is_ready_soon_is_told_of_in_one_write_and_one_event(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    patches = [step for step in cluster.api.fuse.log if step.startswith(f"patch {dialect.snapshots.name} ")]
    # One protects it and one says that it is ready; in the prototype's API its record is in the spec, which is one more.
    assert len(patches) == {"ga": 2, "prototype": 3}[dialect.name]
    assert cluster.told.reasons == ["SnapshotReady"]


class LateApi(MemoryApi):
    """Answers a moment later, and tells watches later still: what is written at the same moment meets."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    async def create(self, kind: Any, obj: Any) -> Any:
        await asyncio.sleep(0.002)
        return await super().create(kind, obj)

    async def patch(self, *args: Any, **rest: Any) -> Any:
        await asyncio.sleep(0.002)
        return await super().patch(*args, **rest)

    async def watch(self, *args: Any, **rest: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        async for event in super().watch(*args, **rest):
            await asyncio.sleep(0.001)
            yield event

    def _effect(self, what: str, write: Callable[[], Json]) -> Json:
        try:
            return super()._effect(what, write)
        except (AlreadyExists, Conflict):
            self.refused.append(what)
            raise


@both
async def test_snapshots_of_a_claim_at_the_same_moment_repeat_no_write(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect, api=LateApi())
    names = [f"snap-{number}" for number in range(12)]
    for name in names:
        cluster.ask(name)
    await cluster.live(lambda: all(map(cluster.ready, names)) and cluster.free())
    assert isinstance(cluster.api, LateApi)
    assert cluster.api.refused == []
    holds = [one for one in cluster.api.fuse.log if one == f"patch {core.CLAIMS.name} db"]
    assert len(holds) == 2, "it is held once, and let go once"


@both
async def test_a_snapshot_that_takes_long_is_told_of_before_it_is_ready(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.driver.gate.clear()
    cluster.ask()
    async with cluster.running():
        await cluster.api.until(lambda: bool(cluster.snapshot().state.record))
        assert cluster.told.reasons == ["CreatingSnapshot"]
        cluster.driver.gate.set()
        await cluster.api.until(cluster.done)
    assert cluster.told.reasons == ["CreatingSnapshot", "SnapshotReady"]


@both
async def test_the_record_says_what_it_was_taken_of_and_with_and_its_mark_goes(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    asks = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
    cluster.api.edit(core.CLAIMS, "db", "team", merge={"spec": asks})
    parameters = {"type": "thin", "csi.storage.k8s.io/snapshotter-list-secret-name": "lists"}
    text = '{"csi.storage.k8s.io/snapshotter-list-secret-name":"lists","type":"thin"}'
    cluster.api.edit(GA.classes, "daily", merge={"parameters": parameters})
    cluster.api.edit(storage.STORAGE_CLASSES, "fast", merge={"metadata": {"annotations": {ANNOTATION: text}}})
    cluster.ask()
    await cluster.live(cluster.done)
    await cluster.live(lambda: "ullage.io/creating" not in cluster.api.bodies(dialect.records)[0]["metadata"]["annotations"])
    notes = cluster.api.bodies(dialect.records)[0]["metadata"]["annotations"]
    stamps = {
        "ullage.io/source-size": "1Gi",
        "ullage.io/source-class": "fast",
        "ullage.io/source-access-modes": "ReadWriteOnce,ReadOnlyMany",
        "ullage.io/source-volume-mode": "Filesystem",
    }
    assert {key: notes.get(key) for key in stamps} == stamps
    assert notes["ullage.io/class-parameters"] == text
    assert {key: cluster.snapshot().meta.annotations.get(key) for key in stamps} == stamps
    cluster.api.edit(GA.classes, "daily", merge={"parameters": {"type": "thick"}})
    cluster.api.edit(core.CLAIMS, "db", "team", merge={"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
    cluster.api.edit(dialect.snapshots, "snap", "team", merge={"metadata": {"annotations": {"ullage.io/source-size": "4Ki"}}})
    await cluster.live(lambda: cluster.snapshot().meta.annotations["ullage.io/source-size"] == "1Gi")
    assert cluster.api.bodies(dialect.records)[0]["metadata"]["annotations"] == notes


@both
async def test_a_mark_that_a_dead_process_left_goes_too(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    (record,) = cluster.api.bodies(dialect.records)
    theirs = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
    marks = {"ullage.io/creating": "maybe", theirs: "yes"}
    cluster.api.edit(dialect.records, record["metadata"]["name"], merge={"metadata": {"annotations": marks}})
    await cluster.live(lambda: not marks.keys() & cluster.api.bodies(dialect.records)[0]["metadata"]["annotations"].keys())
    assert cluster.driver.made == 1
    assert cluster.ready()


@both
async def test_a_process_may_die_before_and_after_every_effect(dialect: Dialect[Any, Any]) -> None:
    moment = 0
    while True:
        moment += 1
        cluster = Cluster(dialect)
        cluster.api.fuse.blows_at = moment
        cluster.ask()
        await cluster.live(cluster.done)
        assert cluster.driver.made == 1, cluster.api.fuse.log
        assert list(cluster.driver.names.values()) == ["snapshot-uid-snap"], cluster.api.fuse.log
        cluster.delete()
        await cluster.live(cluster.gone)
        assert cluster.driver.names == {}, cluster.api.fuse.log
        assert cluster.api.bodies(dialect.records) == []
        assert cluster.held() == []
        if cluster.api.fuse.passed < moment:
            return


@both
async def test_a_deletion_may_come_at_any_moment_of_the_creation(dialect: Dialect[Any, Any]) -> None:
    moment = 0
    while True:
        moment += 1
        cluster = Cluster(dialect)
        cluster.ask()
        fuse, before = cluster.api.fuse, cluster.api.fuse.before

        def delete_at(what: str, cluster: Cluster = cluster, moment: int = moment, before: Any = before) -> None:
            before(what)
            if len(cluster.api.fuse.log) == moment:
                cluster.delete()

        fuse.before = delete_at  # type: ignore[method-assign]
        await cluster.live(cluster.settled)
        if cluster.snapshot() is not None:
            assert len(fuse.log) < moment
            return
        assert cluster.driver.names == {}, fuse.log
        assert cluster.api.bodies(dialect.records) == [], fuse.log
        await cluster.live(cluster.free)


class TestDriverFails:
    @both
    async def test_an_answer_that_was_lost_is_asked_for_again(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        failures = iter([Uncertain("no answer"), Uncertain("no answer")])
        cluster.driver.after = lambda: _raise_next(failures)
        cluster.ask()
        await cluster.live(cluster.ready)
        assert cluster.driver.made == 1
        assert cluster.problem() == ""

    @both
    async def test_a_snapshot_that_may_have_been_made_is_not_left_behind(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        cluster.driver.after = lambda: _raise(Uncertain("csi.example.com gave no answer within 60 s"))
        cluster.ask()
        await cluster.live(lambda: "no answer" in cluster.problem())
        assert len(cluster.driver.names) == 1
        cluster.delete()
        cluster.driver.after = lambda: None
        await cluster.live(cluster.gone)
        assert cluster.driver.names == {}

    @both
    @pytest.mark.parametrize("error", [NotNow("busy"), Impossible("no such pool")], ids=["not now", "never"])
    async def test_no_later_answer_makes_a_lost_one_undone(self, dialect: Dialect[Any, Any], error: UllageError) -> None:
        cluster = Cluster(dialect)
        cluster.driver.after = lambda: _raise(Uncertain("no answer"))
        cluster.ask()
        await cluster.live(lambda: "no answer" in cluster.problem())
        cluster.driver.after, cluster.driver.before = lambda: None, lambda: _raise(error)
        await cluster.live(lambda: str(error) in cluster.problem())
        cluster.driver.before = lambda: None
        cluster.delete()
        await cluster.live(cluster.gone)
        assert cluster.driver.names == {}

    async def test_a_secret_that_is_missing_stops_nothing_from_being_deleted(self) -> None:
        cluster = Cluster(GA)
        secret = {f"csi.storage.k8s.io/snapshotter-secret-{half}": "login" for half in ("name", "namespace")}
        cluster.api.edit(GA.classes, "daily", merge={"parameters": secret})
        cluster.ask()
        await cluster.live(lambda: cluster.problem() == "secret login/login does not exist")
        assert cluster.driver.made == 0
        cluster.delete()
        await cluster.live(cluster.gone)

    async def test_a_secret_that_went_meanwhile_does_not_hide_what_was_made(self) -> None:
        cluster = Cluster(GA)
        secret = {f"csi.storage.k8s.io/snapshotter-secret-{half}": "login" for half in ("name", "namespace")}
        cluster.api.edit(GA.classes, "daily", merge={"parameters": secret})
        login = {"metadata": {"name": "login", "namespace": "login"}, "data": {}}
        cluster.api.put(core.SECRETS, login)
        cluster.driver.after = lambda: _raise(Uncertain("no answer"))
        cluster.ask()
        await cluster.live(lambda: "no answer" in cluster.problem())
        cluster.driver.after = lambda: None
        cluster.api.remove(core.SECRETS, "login", "login")
        await cluster.live(lambda: "does not exist" in cluster.problem())
        cluster.delete()
        cluster.api.put(core.SECRETS, login)
        await cluster.live(cluster.gone)
        assert cluster.driver.names == {}

    @both
    async def test_a_refusal_stops_and_is_shown_and_holds_nothing(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        asked: list[int] = []

        def refuse() -> None:
            asked.append(1)
            raise Impossible("csi.example.com: the volume is too old")

        cluster.driver.before = refuse
        cluster.ask()
        await cluster.live(lambda: "too old" in cluster.problem() and not cluster.held())
        assert len(asked) == 1
        cluster.delete()
        await cluster.live(cluster.gone)
        assert cluster.driver.made == 0

    @both
    async def test_a_refusal_is_final_only_until_the_class_is_edited(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        refusals = iter([Impossible("parameter pool: there is no pool 1")])
        cluster.driver.before = lambda: _raise_next(refusals)
        cluster.ask()
        async with cluster.running():
            await cluster.api.until(lambda: "no pool 1" in cluster.problem() and not cluster.held())
            if dialect is GA:
                cluster.api.edit(GA.classes, "daily", merge={"parameters": {"pool": "2"}})
            else:
                pool = {"ullage.io/snapshot-parameters": '{"pool": "2"}'}
                cluster.api.edit(storage.STORAGE_CLASSES, "fast", merge={"metadata": {"annotations": pool}})
            await cluster.api.until(cluster.done)
        assert cluster.problem() == ""

    @both
    async def test_a_refusal_is_final_only_until_the_snapshot_is_edited(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        refusals = iter([Impossible("the volume is locked")])
        cluster.driver.before = lambda: _raise_next(refusals)
        cluster.ask()
        async with cluster.running():
            await cluster.api.until(lambda: "locked" in cluster.problem() and not cluster.held())
            cluster.api.edit(dialect.snapshots, "snap", "team", merge={"metadata": {"annotations": {"note": "unlocked"}}})
            await cluster.api.until(cluster.done)

    @both
    async def test_a_refused_snapshot_that_is_given_another_class_is_taken_with_it(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        cluster.driver.refuses = lambda creation: _raise(Impossible("no pool")) if not creation.parameters else None
        good = {"metadata": {"name": "good"}, "driver": DRIVER, "deletionPolicy": "Retain", "parameters": {"pool": "2"}}
        pool = {"ullage.io/snapshot-parameters": '{"pool": "2"}'}
        cluster.api.put(GA.classes, good)
        cluster.api.put(storage.STORAGE_CLASSES, {"metadata": {"name": "good", "annotations": pool}, "provisioner": DRIVER})
        named = "volumeSnapshotClassName" if dialect is GA else "storageClassName"
        cluster.ask()
        async with cluster.running():
            await cluster.api.until(lambda: "no pool" in cluster.problem() and not cluster.held())
            cluster.api.edit(dialect.snapshots, "snap", "team", merge={"spec": {named: "good"}})
            await cluster.api.until(cluster.done)
        record = dialect.read_record(_decoded(dialect.records, cluster.api.bodies(dialect.records)[0]))
        assert (record.class_name, record.policy) == ("good", "Retain" if dialect is GA else "Delete")

    @both
    async def test_a_refusal_is_tried_again_after_a_long_time_though_nothing_was_edited(
        self, dialect: Dialect[Any, Any]
    ) -> None:
        cluster = Cluster(dialect, after_refusal=Backoff(first=0.05, cap=0.1))
        refusals = iter([Impossible("the Secret is wrong"), Impossible("the Secret is wrong")])
        cluster.driver.before = lambda: _raise_next(refusals)
        cluster.ask()
        async with cluster.running():
            await cluster.api.until(cluster.done)
        assert cluster.problem() == ""

    @both
    async def test_an_error_that_passes_is_shown_and_then_cleared(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        cluster.driver.before = lambda: _raise(NotNow("csi.example.com: no space left"))
        cluster.ask()
        await cluster.live(lambda: "no space left" in cluster.problem())
        cluster.driver.before = lambda: None
        await cluster.live(cluster.ready)
        assert cluster.problem() == ""

    @both
    async def test_a_deletion_that_fails_says_why_and_is_tried_again(self, dialect: Dialect[Any, Any]) -> None:
        cluster = Cluster(dialect)
        cluster.ask()
        await cluster.live(cluster.ready)
        cluster.driver.deleting = lambda: _raise(Uncertain("driver csi.example.com does not answer"))
        cluster.delete()
        await cluster.live(lambda: "does not answer" in cluster.problem())
        cluster.driver.deleting = lambda: None
        await cluster.live(cluster.gone)
        assert cluster.driver.names == {}

    @both
    async def test_a_broken_snapshot_beside_a_good_one_does_not_hold_the_claim(
        self, dialect: Dialect[Any, Any], alone: bool
    ) -> None:
        cluster = Cluster(dialect)
        cluster.ask("good")
        cluster.ask("broken", claim="missing")
        await cluster.live(lambda: cluster.ready("good") and bool(cluster.problem("broken")) is alone and not cluster.held())


@both
async def test_what_was_undone_is_not_undone_again_where_the_cache_has_not_seen_it_go(dialect: Dialect[Any, Any]) -> None:
    """To undo, a driver makes it once more. A process that dies right then would leave it, with no record to tell of it."""
    cluster = Cluster(dialect)
    cluster.driver.before = lambda: _raise(Uncertain("no answer"))
    cluster.ask()
    await cluster.live(lambda: "no answer" in cluster.problem())
    cluster.delete()
    await cluster.live(lambda: "deletionTimestamp" in cluster.api.bodies(dialect.records)[0]["metadata"])
    cluster.driver.before = lambda: None
    wiring = Wiring(cluster.api)  # type: ignore[arg-type]
    backends: Any = {DRIVER: cluster.driver}

    def make(wiring: Wiring) -> list[RecordSyncer]:
        return [
            RecordSyncer(
                wiring.client,
                [snapshot_lookup(wiring, one) for one in DIALECTS],
                backends,
                queues=VolumeQueues(),
                recorder=Told(),
            )
        ]

    (worker,) = wiring.made(Part(make=make, watches=kinds_of(DIALECTS)))
    place = RecordKey(dialect.name, cluster.api.bodies(dialect.records)[0]["metadata"]["name"])
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(cache.run()) for cache in wiring.caches]
        for cache in wiring.caches:
            await cache.synced.wait()
        await worker.reconcile(place)
        assert cluster.api.bodies(dialect.records) == []
        await worker.reconcile(place)
        for task in tasks:
            task.cancel()
    assert cluster.driver.made == 1
    assert cluster.driver.names == {}


@both
async def test_a_write_that_was_overtaken_says_nothing_of_the_driver(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    overtaken: list[str] = []

    def refuse(what: str) -> None:
        if cluster.driver.made and what.startswith(f"patch {dialect.records.name}") and not overtaken:
            overtaken.append(what)
            raise Conflict("somebody else wrote first", code=409)

    cluster.api.refuse = refuse
    cluster.ask()
    await cluster.live(cluster.ready)
    assert overtaken
    assert [event for event in cluster.told.events if event[0] == "Warning"] == []
    assert cluster.driver.made == 1


@both
async def test_one_snapshot_of_a_volume_is_taken_at_a_time(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    names = [f"snap-{number}" for number in range(12)]
    for name in names:
        cluster.ask(name)
    await cluster.live(lambda: all(cluster.ready(name) for name in names) and not cluster.held())
    assert cluster.driver.most == 1
    assert cluster.driver.made == len(names)


@both
async def test_a_snapshot_goes_when_nothing_is_left_that_names_its_driver(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    assert cluster.snapshot().meta.annotations["ullage.io/driver"] == DRIVER
    (record,) = cluster.api.bodies(dialect.records)
    cluster.api.edit(dialect.records, record["metadata"]["name"], merge={"metadata": {"finalizers": []}})
    cluster.api.remove(dialect.records, record["metadata"]["name"])
    cluster.api.remove(core.CLAIMS, "db", "team")
    cluster.api.remove(core.PERSISTENT_VOLUMES, "pv-1")
    cluster.api.remove(storage.STORAGE_CLASSES, "fast")
    cluster.api.remove(GA.classes, "daily")
    cluster.delete()
    assert cluster.snapshot() is not None
    await cluster.live(cluster.gone)


async def test_a_snapshot_of_another_snapshotter_keeps_its_finalizers_when_nothing_names_its_driver(alone: bool) -> None:
    cluster = Cluster(GA)
    theirs = {"name": "snap", "namespace": "team", "finalizers": list(GA.finalizers), "deletionTimestamp": DELETED}
    cluster.api.put(GA.snapshots, {"metadata": theirs, "spec": {"source": {"persistentVolumeClaimName": "gone"}}})
    cluster.ask("ours")
    await cluster.live(lambda: cluster.ready("ours") and (not alone or cluster.snapshot() is None))
    assert (cluster.snapshot() is not None) is not alone


@both
async def test_a_claim_is_let_go_though_its_volume_is_gone(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.driver.gate.clear()
    cluster.ask()
    async with cluster.running():
        await cluster.api.until(lambda: bool(cluster.held() and cluster.api.bodies(dialect.records)))
        assert cluster.api.body(core.CLAIMS, "db", "team")["metadata"]["annotations"] == {"ullage.io/driver": DRIVER}  # type: ignore[index]
        cluster.api.remove(core.PERSISTENT_VOLUMES, "pv-1")
        cluster.driver.gate.set()
        await cluster.api.until(cluster.done)
    assert cluster.api.body(core.CLAIMS, "db", "team")["metadata"]["annotations"] == {}  # type: ignore[index]


def made_late(dialect: Dialect[Any, Any], **annotations: str) -> Json:
    """A record that a snapshotter makes for a snapshot that is gone by then."""
    ref = {"namespace": "team", "name": "snap", "uid": "uid-snap"}
    if dialect is GA:
        spec: Json = {"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": "vol-1"}}
    else:
        spec = {"csiVolumeSnapshotSource": {"driver": DRIVER, "snapshotHandle": ""}}
        annotations["ullage.io/source-volume"] = "vol-1"
    meta = {"name": f"late-{dialect.name}", "annotations": annotations, "finalizers": [dialect.record_finalizer]}
    return {"metadata": meta, "spec": {**spec, "volumeSnapshotRef": ref}}


@both
async def test_a_record_that_was_made_after_its_snapshot_was_gone_is_removed(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    async with cluster.running():
        cluster.api.put(dialect.records, made_late(dialect))
        await cluster.api.until(lambda: not cluster.api.bodies(dialect.records))
    assert cluster.driver.made == 0


@both
async def test_what_may_have_been_made_for_a_snapshot_that_is_gone_is_undone_before_its_record_goes(
    dialect: Dialect[Any, Any],
) -> None:
    cluster = Cluster(dialect)
    cluster.driver.names["shot-9"] = "snapshot-uid-snap"
    cluster.api.put(dialect.records, made_late(dialect, **{"ullage.io/creating": "true"}))
    await cluster.live(lambda: not cluster.api.bodies(dialect.records))
    assert cluster.driver.names == {}


@both
async def test_a_snapshot_that_another_lets_go_while_it_is_taken_leaves_nothing(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.driver.gate.clear()
    cluster.ask()
    async with cluster.running():
        await cluster.api.until(lambda: bool(cluster.api.bodies(dialect.records)))
        cluster.delete()
        cluster.api.edit(dialect.snapshots, "snap", "team", merge={"metadata": {"finalizers": []}})
        assert cluster.gone()
        cluster.driver.gate.set()
        await cluster.api.until(lambda: not cluster.api.bodies(dialect.records))
        await cluster.api.until(cluster.free)
    assert cluster.driver.names == {}


async def test_a_mark_that_another_snapshotter_wipes_off_is_not_what_data_leaks_for() -> None:
    """It says on a record that the snapshot goes, with all annotations as it has seen them, while the driver is at work."""
    cluster = Cluster(GA)
    cluster.driver.gate.clear()
    cluster.ask()
    async with cluster.running():
        await cluster.api.until(lambda: bool(cluster.api.bodies(GA.records)))
        cluster.delete()
        name = cluster.api.bodies(GA.records)[0]["metadata"]["name"]
        seen = {"ullage.io/creating": None, "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes"}
        cluster.api.edit(GA.records, name, merge={"metadata": {"annotations": seen}})
        cluster.driver.gate.set()
        await cluster.api.until(cluster.gone)
    assert cluster.api.bodies(GA.records) == []
    assert cluster.driver.names == {}


async def test_an_undo_that_fails_does_not_take_the_mark_off() -> None:
    cluster = Cluster(GA)
    cluster.driver.names["shot-9"] = "snapshot-uid-snap"
    failures = iter([NotNow("busy")])
    cluster.driver.deleting = lambda: _raise_next(failures)
    cluster.api.put(GA.records, made_late(GA, **{"ullage.io/creating": "true"}))
    await cluster.live(lambda: not cluster.api.bodies(GA.records))
    assert cluster.driver.names == {}


def strip_and_delete(cluster: Cluster, name: str = "snap") -> None:
    """What a tenant can do who may edit VolumeSnapshots."""
    cluster.delete(name)
    cluster.api.edit(cluster.dialect.snapshots, name, "team", merge={"metadata": {"finalizers": []}})


@both
async def test_a_record_with_data_stays_for_a_request_s_time_though_its_snapshot_is_gone(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.ask()
    await cluster.live(cluster.done)
    strip_and_delete(cluster)
    cluster.ask("other")
    await cluster.live(lambda: cluster.ready("other"))
    assert len(cluster.api.bodies(dialect.records)) == len(cluster.driver.names) == 2
    assert any(
        reason == "SnapshotGone" and "set the deletion policy to Retain" in note for _, reason, note in cluster.told.events
    )


@both
async def test_data_whose_snapshot_was_stripped_of_its_finalizers_goes_wherever_processes_die(
    dialect: Dialect[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "request_seconds", 0.05)
    moment = 0
    while True:
        cluster = Cluster(dialect)
        cluster.ask()
        await cluster.live(cluster.done)
        strip_and_delete(cluster)
        passed = cluster.api.fuse.passed
        cluster.api.fuse.blows_at = passed + moment
        await cluster.live(lambda cluster=cluster: not cluster.api.bodies(dialect.records))  # type: ignore[misc]
        assert cluster.driver.names == {}
        if cluster.api.fuse.passed < passed + moment:
            break
        moment += 1
    assert moment > 4


KEPT: list[tuple[str, Json]] = [
    ("its policy says so", {"spec": {"deletionPolicy": "Retain"}}),
    ("an administrator named its data", {"spec": {"source": {"volumeHandle": None, "snapshotHandle": "shot-1"}}}),
    ("it was cut with its group", {"metadata": {"annotations": {GROUP_HANDLE: "group-1"}}}),
    ("its driver is another's", {"spec": {"driver": "theirs.example.com"}}),
]


@pytest.mark.parametrize("merge", [row[1] for row in KEPT], ids=[row[0] for row in KEPT])
async def test_data_whose_snapshot_is_gone_stays_where(merge: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "request_seconds", 0.02)
    cluster = Cluster(GA)
    cluster.ask()
    await cluster.live(cluster.done)
    (record,) = cluster.api.bodies(GA.records)
    cluster.api.edit(GA.records, record["metadata"]["name"], merge=merge)
    strip_and_delete(cluster)
    for name in ("second", "third"):  # each is made, and goes, with the time that takes
        cluster.ask(name)
        await cluster.live(lambda name=name: cluster.ready(name))  # type: ignore[misc]
        await asyncio.sleep(0.05)
    assert "shot-1" in cluster.driver.names
    assert record["metadata"]["name"] in {one["metadata"]["name"] for one in cluster.api.bodies(GA.records)}


class SlowAnswers(MemoryApi):
    """What was written is seen by everybody before its writer is told."""

    async def patch(self, *args: Any, **kwargs: Any) -> Any:
        answer = await super().patch(*args, **kwargs)
        await asyncio.sleep(0.01)
        return answer


class LateNews(MemoryApi):
    """Caches are behind what was written and answered."""

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        async for event in super().watch(*args, **kwargs):
            await asyncio.sleep(0.003)
            yield event


@both
@pytest.mark.parametrize("api", [SlowAnswers, LateNews], ids=["answers are slow", "news are late"])
async def test_a_line_moves_on_at_once_and_the_driver_is_asked_once_for_each(
    dialect: Dialect[Any, Any], api: type[MemoryApi]
) -> None:
    cluster = Cluster(dialect, api=api())
    names = [f"snap-{number}" for number in range(12)]
    for name in names:
        cluster.ask(name)
    await cluster.live(lambda: all(cluster.ready(name) for name in names))
    assert len([what for what in cluster.api.fuse.log if what.startswith("make ")]) == len(names)


@both
async def test_a_copy_of_twenty_minutes_shows_its_bytes_holds_its_claim_and_ends(
    dialect: Dialect[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many looks as twenty minutes have, in less time: no run of a worker lasts as long as the copy."""
    looks = int(20 * 60 / record_sync.PROGRESS_SECONDS)
    monkeypatch.setattr(record_sync, "PROGRESS_SECONDS", 0.0005)
    cluster, asked, seen = Cluster(dialect), list[int](), set[tuple[str, bool, bool]]()

    def goes_on() -> None:
        asked.append(1)
        if (shown := cluster.snapshot()).state.waiting is not None and shown.state.waiting.reason == "Copying":
            seen.add((shown.state.waiting.message.split()[0], shown.state.problem is None, bool(cluster.held())))
        if len(asked) <= looks:
            raise InProgress(f"copied {len(asked)}Mi of {looks}Mi")

    cluster.driver.before = goes_on
    cluster.ask()
    await cluster.live(cluster.done)
    assert seen == {("copied", True, True)}, "the bytes are told, it is no error, and the claim is held"
    # A look that comes before the cache shows the last answer asks once more: the driver answers alike.
    assert looks + 1 <= len(asked) <= looks + 3
    found = cluster.snapshot()
    assert (found.state.ready, found.state.waiting, cluster.held()) == (True, None, [])
    assert "ullage.io/progress" not in found.meta.annotations
    [record] = cluster.api.bodies(dialect.records)
    assert "ullage.io/progress" not in record["metadata"].get("annotations", {})


@both
async def test_a_claim_is_held_while_a_driver_that_cannot_just_now_is_asked_again(dialect: Dialect[Any, Any]) -> None:
    cluster, tries, held = Cluster(dialect), list[int](), list[bool]()

    def full() -> None:
        tries.append(1)
        held.append(bool(cluster.held()))
        if len(tries) < 6:
            raise NotNow("no space left")

    cluster.driver.before = full
    cluster.ask()
    await cluster.live(cluster.done)
    assert held == [True] * 6


@both
async def test_an_upload_is_cut_first_and_ready_later(dialect: Dialect[Any, Any]) -> None:
    cluster = Cluster(dialect)
    cluster.driver.ready = False
    cluster.ask()
    await cluster.live(lambda: cluster.snapshot().state.cut == CUT and not cluster.held())
    assert not cluster.ready()
    cluster.driver.ready = True
    await cluster.live(cluster.ready)
    assert cluster.driver.made == 1


async def test_an_import_is_bound_and_found() -> None:
    cluster = Cluster(GA)
    cluster.driver.names["by-hand-1"] = "whatever"
    ref = {"namespace": "team", "name": "snap"}
    spec = {"volumeSnapshotRef": ref, "deletionPolicy": "Retain", "driver": DRIVER, "source": {"snapshotHandle": "by-hand-1"}}
    cluster.api.put(GA.records, {"metadata": {"name": "mine"}, "spec": spec})
    source = {"volumeSnapshotContentName": "mine"}
    cluster.api.put(GA.snapshots, {"metadata": {"name": "snap", "namespace": "team"}, "spec": {"source": source}})
    await cluster.live(cluster.ready)
    bound = cluster.api.body(GA.records, "mine")
    assert bound is not None
    assert bound["spec"]["volumeSnapshotRef"]["uid"] == "uid-snap"
    cluster.delete()
    await cluster.live(cluster.gone)
    assert cluster.driver.names == {"by-hand-1": "whatever"}
    assert cluster.api.body(GA.records, "mine") is not None


async def test_data_that_a_record_of_the_other_api_names_too_is_left_until_both_go() -> None:
    cluster = Cluster(PROTOTYPE)
    cluster.ask()
    await cluster.live(cluster.done)
    handle = next(iter(cluster.driver.names))
    ref = {"namespace": "team", "name": "same"}
    spec = {"volumeSnapshotRef": ref, "deletionPolicy": "Delete", "driver": DRIVER, "source": {"snapshotHandle": handle}}
    cluster.api.put(GA.records, {"metadata": {"name": "mine"}, "spec": spec})
    cluster.delete()
    await cluster.live(cluster.gone)
    assert list(cluster.driver.names) == [handle]
    assert cluster.told.of("SnapshotKept") == [
        f"The snapshot {handle} of {DRIVER} was not deleted: VolumeSnapshotContent mine has the same handle.",
        f"VolumeSnapshotData snapdata-uid-snap was deleted, and the snapshot {handle} of {DRIVER} stays for this object. "
        "It is deleted with the last object that has its handle.",
    ]
    cluster.api.remove(GA.records, "mine")
    await cluster.live(lambda: cluster.api.body(GA.records, "mine") is None)
    assert cluster.driver.names == {}


async def test_a_restored_backup_that_keeps_the_data_of_a_deleted_one_is_told_that_it_stays() -> None:
    """As Velero does it: the backup's content and the restored one, which is retained, have one handle."""
    cluster = Cluster(GA)
    cluster.ask()
    await cluster.live(cluster.done)
    handle = next(iter(cluster.driver.names))
    ref = {"namespace": "restored", "name": "same"}
    spec = {"volumeSnapshotRef": ref, "deletionPolicy": "Retain", "driver": DRIVER, "source": {"snapshotHandle": handle}}
    cluster.api.put(GA.records, {"metadata": {"name": "mine"}, "spec": spec})
    cluster.delete()
    await cluster.live(cluster.gone)
    assert list(cluster.driver.names) == [handle]
    warnings = [note for type, reason, note in cluster.told.events if (type, reason) == ("Warning", "SnapshotKept")]
    assert warnings == [
        f"VolumeSnapshotContent snapcontent-uid-snap was deleted, and the snapshot {handle} of {DRIVER} stays for this object. "
        "The deletion policy here is Retain: to have it deleted with this object, set the policy to Delete."
    ]


class BlindApi(MemoryApi):
    """Caches never learn of records that were made after they started."""

    hidden: str = ""

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        async for event in super().watch(*args, **kwargs):
            if event.object.metadata.name != self.hidden or not self.hidden:
                yield event


@both
async def test_whether_data_is_shared_is_asked_of_the_api_itself_before_it_is_deleted(dialect: Dialect[Any, Any]) -> None:
    api = BlindApi()
    cluster = Cluster(dialect, api=api)
    cluster.ask()
    async with cluster.running():
        await api.until(cluster.done)
        handle = next(iter(cluster.driver.names))
        api.hidden = "mine"
        ref = {"namespace": "team", "name": "same"}
        spec = {"volumeSnapshotRef": ref, "deletionPolicy": "Delete", "driver": DRIVER, "source": {"snapshotHandle": handle}}
        api.put(GA.records, {"metadata": {"name": "mine"}, "spec": spec})
        cluster.delete()
        await api.until(cluster.gone)
    assert list(cluster.driver.names) == [handle]
    assert len(cluster.told.of("SnapshotKept")) == 2  # on the one that went, and on the one that keeps the data


async def test_an_error_that_another_snapshotter_wrote_is_told_though_it_has_no_reason() -> None:
    cluster = Cluster(GA)
    cluster.driver.ready = False
    cluster.ask()
    await cluster.live(lambda: cluster.snapshot().state.cut == CUT and not cluster.held())
    name = cluster.snapshot().state.record
    theirs = {"error": {"time": "2026-01-01T00:00:09Z", "message": "rpc error: code = Internal"}}
    async with cluster.running():
        cluster.api.edit(GA.records, name, merge={"status": theirs})
        await cluster.api.until(lambda: cluster.problem() == "rpc error: code = Internal")
        cluster.driver.ready = True
        await cluster.api.until(cluster.ready)
    assert ("Warning", "SnapshotError", "rpc error: code = Internal") in cluster.told.events


async def test_another_snapshotter_may_make_the_record_first(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "for_others", 3600.0)
    left, wait = asyncio.Event(), OtherSnapshotter.wait

    def leave(self: OtherSnapshotter, uid: str, now: float) -> float:
        left.set()
        return wait(self, uid, now)

    monkeypatch.setattr(OtherSnapshotter, "wait", leave)
    cluster = Cluster(GA)
    cluster.ask()
    async with cluster.running():
        if not alone:
            await left.wait()
            assert cluster.api.bodies(GA.records) == []
            theirs = made_late(GA)
            theirs["metadata"]["name"] = "snapcontent-uid-snap"
            theirs["spec"]["volumeSnapshotClassName"] = "daily"
            cluster.api.put(GA.records, theirs)
        await cluster.api.until(cluster.ready)
    assert cluster.driver.made == 1


async def test_where_no_other_snapshotter_makes_a_record_it_is_made_here_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "for_others", 0.05)
    cluster = Cluster(GA)
    cluster.ask()
    async with cluster.running():
        await cluster.api.until(cluster.ready)


async def test_a_class_that_comes_later_starts_what_waited_for_it() -> None:
    cluster = Cluster(GA)
    cluster.api.edit(GA.classes, "daily", merge={"metadata": {"annotations": None}})
    cluster.ask()
    await cluster.live(lambda: "no class is marked as the default" in cluster.problem())
    marked = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
    async with cluster.running():
        cluster.api.edit(GA.classes, "daily", merge={"metadata": {"annotations": marked}})
        await cluster.api.until(cluster.ready)


def _raise(error: UllageError) -> None:
    raise error


def _raise_next(errors: Any) -> None:
    error = next(errors, None)
    if error is not None:
        raise error
