"""Snapshots of Longhorn's volumes, with the real controllers of its Snapshots around engines that only count.

Volumes are cloned by somebody who is played here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from tests.unit.cli.snapshot.cluster import Cluster
from tests.unit.engines.world import GIB, MIB, NS, World, holds
from ullage.engines import model
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, VOLUMES
from ullage.engines.chain import HEAD
from ullage.engines.client.errors import Reason, error
from ullage.engines.handles import SnapshotHandle
from ullage.engines.holds import Hold, annotations_of
from ullage.engines.settings import Settings
from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.errors import NotNow as EngineNotNow
from ullage.kube.client.client import Client
from ullage.kube.errors import ApiError, Forbidden, Invalid, NotFound, TooManyRequests, Unavailable
from ullage.snapshots.backends.base import BackendSnapshot, Creation, Held, Restoration, Restored, VolumeHandle
from ullage.snapshots.backends.longhorn.backend import LonghornBackend, Timeouts, parsed
from ullage.standalone.world.controllers.longhorn_volume import engine_for

SOON = Timeouts(taking=5.0, removing=5.0, cloning=5.0)
AT_ONCE = Timeouts(taking=0.05, removing=0.05, cloning=0.05)
CREATED = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
HANDLE = "snap://vol/snapshot-1"


def creation(name: str = "snapshot-1", volume: str = "vol", **parameters: str) -> Creation:
    return Creation(name=name, volume=VolumeHandle(handle=volume), parameters=parameters)


def restoration(name: str = "pvc-1", snapshot: str = HANDLE, size: int = GIB, **more: Any) -> Restoration:
    return Restoration(name=name, snapshot=snapshot, size=size, **more)


def backend(world: World, timeouts: Timeouts = SOON) -> LonghornBackend:
    return LonghornBackend(cast(Client, world.api), timeouts=timeouts)


@asynccontextmanager
async def cloning(world: World, *states: dict[str, str]) -> AsyncIterator[None]:
    """Somebody who takes volumes with a data source through these states."""

    async def work() -> None:
        for state in states:
            await holds(lambda: any((body["spec"].get("dataSource")) for body in world.api.bodies(VOLUMES)))
            for body in world.api.bodies(VOLUMES):
                if body["spec"].get("dataSource"):
                    world.api.edit(VOLUMES, body["metadata"]["name"], NS, merge={"status": {"cloneStatus": state}})

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


async def refused(call: Awaitable[Any]) -> tuple[type[UllageError], str]:
    with pytest.raises((Uncertain, NotNow, Impossible)) as caught:
        await call
    return type(caught.value), str(caught.value)


# --- taking ----------------------------------------------------------------------------------------------------------


async def test_a_snapshot_is_an_object_with_its_name_and_cut_when_the_engine_says() -> None:
    world = World()
    engine = world.volume()
    async with world.running():
        snapshot = await backend(world).create(creation())
    assert snapshot == BackendSnapshot(handle=HANDLE, volume="vol", cut=CREATED, ready=True, restore_size=GIB)
    assert engine.taken == ["snapshot-1"]
    body = world.body(ENGINE_SNAPSHOTS, "snapshot-1")
    assert body is not None
    assert body["spec"] == {"volume": "vol", "createSnapshot": True}
    assert body["metadata"]["labels"] == {"longhornvolume": "vol"}


async def test_a_detached_volume_is_attached_for_it_and_let_go() -> None:
    world = World()
    engine = world.volume(attached=False)
    async with world.running():
        await backend(world).create(creation())
        await holds(lambda: not world.tickets())
    assert engine.taken == ["snapshot-1"]


async def test_asking_again_or_at_the_same_time_takes_one() -> None:
    world = World()
    engine = world.volume()
    async with world.running():
        shots = await asyncio.gather(*(backend(world).create(creation()) for _ in range(5)))
        again = await backend(world).create(creation())
    assert {snapshot.cut for snapshot in (*shots, again)} == {CREATED}
    assert engine.taken == ["snapshot-1"]


async def test_what_takes_too_long_is_uncertain_with_what_it_waits_for_and_goes_on() -> None:
    world = World()
    engine = world.volume()

    def busy(call: str) -> None:
        if call == "create":
            raise EngineNotNow(
                "volume vol: engine unix:///srv/my data/engines.sock: VolumeSnapshot snapshot-1: replica "
                "unix:///srv/my data/engines.sock is rebuilding: no space left on the device (/srv/my data/vol/volume.meta)",
                reason=Reason.REBUILDING,
            )

    engine.before = busy
    async with world.running():
        found = await refused(backend(world, AT_ONCE).create(creation()))
        while "rebuilding" not in found[1]:
            found = await refused(backend(world, AT_ONCE).create(creation()))
        assert found == (
            Uncertain,
            "snapshot snapshot-1 of volume vol is not taken after 0.05 s: volume vol: engine: VolumeSnapshot snapshot-1: "
            "replica is rebuilding: no space left on the device",
        ), "tenants read this, and paths of the host are not theirs to know"
        engine.before = lambda call: None
        assert (await backend(world).create(creation())).ready
    assert engine.taken == ["snapshot-1"]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        pytest.param(
            Reason.COUNT_LIMIT,
            "volume vol has as many snapshots as it may have: 2 (snapshotMaxCount); delete some of them first",
            id="too many",
        ),
        pytest.param(
            Reason.SIZE_LIMIT,
            "the snapshots of volume vol and this one would take more than the 1Ki that are allowed (snapshotMaxSize); "
            "delete some of them first",
            id="too large",
        ),
    ],
)
async def test_a_limit_that_the_engine_has_reached_is_a_reason_and_no_retry(reason: Reason, text: str) -> None:
    """The webhook had counted something else, a moment before."""
    world = World()
    engine = world.volume(snapshotMaxCount=2, snapshotMaxSize="1024")
    said = EngineNotNow("volume vol: engine unix:///srv/engines.sock: VolumeSnapshot snapshot-1: full", reason=reason)

    def full(call: str) -> None:
        if call == "create":
            raise said

    engine.before = full
    async with world.running():
        with pytest.raises(Impossible) as caught:
            await backend(world).create(creation())
    assert (caught.value.reason, str(caught.value)) == (reason, text)
    assert world.snapshot("snapshot-1") is None
    assert engine.calls.count("create") == 1


async def test_a_limit_that_the_webhook_refuses_at_is_a_reason_and_no_retry() -> None:
    world = World()
    world.volume()
    cause = {"field": "spec.volume", "reason": "SnapshotCountLimit", "message": "volume vol has 2 snapshots, and 2 are allowed"}
    command = "kubectl get snapshots.longhorn.io -n longhorn-system -l longhornvolume=vol"
    answer = Forbidden(f"denied: {cause['message']}; delete some first: {command}", code=403, details={"causes": [cause]})

    def refuse(what: str) -> None:
        raise answer

    world.api.refuse = refuse
    with pytest.raises(Impossible) as caught:
        await backend(world).create(creation())
    assert caught.value.reason == "SnapshotCountLimit"
    assert str(caught.value) == "volume vol has 2 snapshots, and 2 are allowed; delete some of them first", (
        "no command that a tenant may not run"
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(EngineNotNow("no space left on device", reason=Reason.FULL), NotNow, id="a disk may be emptied"),
        pytest.param(Impossible("unsupported", reason=Reason.UNSUPPORTED), Impossible, id="what the engine cannot do stays so"),
    ],
)
async def test_what_the_engine_refused_for_good_leaves_nothing_and_is_told_in_its_words(
    error: Exception, kind: type[UllageError]
) -> None:
    world = World(settings=Settings(interval=0.02, tries=2))
    engine = world.volume()

    def refuse(call: str) -> None:
        if call == "create":
            raise error

    engine.before = refuse
    async with world.running():
        found, text = await refused(backend(world).create(creation()))
        assert found is kind
        assert text.startswith(f"snapshot snapshot-1 of volume vol was not taken: {error}")
        assert world.snapshot("snapshot-1") is None
        engine.before = lambda call: None
        assert (await backend(world).create(creation())).ready


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(creation(volume="none"), "volume none does not exist, in namespace longhorn-system", id="no volume"),
        pytest.param(creation(volume="going"), "volume going is being deleted, in namespace longhorn-system", id="a going one"),
        pytest.param(
            creation(volume="../x"),
            "volume handle ../x: the name of a Volume in longhorn-system is allowed",
            id="a path as a volume",
        ),
        pytest.param(
            creation("Snapshot"), "snapshot name Snapshot: lower case letters, digits and dashes are allowed", id="a bad name"
        ),
        pytest.param(
            creation(type="bak"),
            "parameters.type bak: snap is allowed; backups and images are Longhorn's own",
            id="a class for backups",
        ),
        pytest.param(
            creation("theirs"), "snapshot theirs is there already, of volume other and not of vol", id="a name that is taken"
        ),
    ],
)
async def test_what_cannot_be_taken(asked: Creation, text: str) -> None:
    world = World()
    world.volume()
    world.volume("other")
    world.volume("going")
    world.api.edit(VOLUMES, "going", NS, merge={"metadata": {"finalizers": ["longhorn.io"]}})
    world.delete_volume("going")
    world.ask("theirs", "other")
    before = world.names()
    assert await refused(backend(world).create(asked)) == (Impossible, text)
    assert world.names() == before


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(Forbidden("no", code=403), NotNow, id="a missing right can be put right"),
        pytest.param(TooManyRequests("no", code=429), NotNow, id="nothing was done"),
        pytest.param(NotFound("no", code=404), NotNow, id="the kind or the namespace may come"),
        pytest.param(Unavailable("no", sent=False), NotNow, id="nothing left this process"),
        pytest.param(Invalid("no", code=422), Impossible, id="the object breaks the kind's rules"),
        pytest.param(Unavailable("no", code=500), Uncertain, id="the server may have done it"),
    ],
)
async def test_what_the_api_answers(answer: ApiError, kind: type[UllageError]) -> None:
    world = World()
    world.volume()

    def refuse(what: str) -> None:
        raise answer

    world.api.refuse = refuse
    text = "Snapshot snapshot-1 was not made: no"
    assert await refused(backend(world).create(creation())) == (kind, text)


# --- removing --------------------------------------------------------------------------------------------------------


async def test_a_deleted_snapshot_is_gone_with_its_space_once_others_came_after_it() -> None:
    world = World()
    engine = world.volume()
    async with world.running():
        for name in ("snapshot-1", "snapshot-2"):
            await backend(world).create(creation(name))
        for _ in range(2):
            await backend(world).delete(HANDLE)
            assert await backend(world).find(HANDLE) is None
            assert engine.names == {"snapshot-2"}


async def test_the_parent_of_the_head_counts_as_deleted_once_it_is_marked_and_goes_after_the_next() -> None:
    world = World()
    engine = world.volume()
    async with world.running():
        await backend(world).create(creation())
        await backend(world).delete(HANDLE)
        assert world.condition(model.LOGICALLY_REMOVED, "snapshot-1") == "ParentOfHead"
        assert engine.entries["snapshot-1"].removed
        assert await backend(world).find(HANDLE) is None
        assert [snapshot async for snapshot in backend(world).list("vol")] == []
        found = await refused(backend(world).create(creation()))
        assert found == (
            NotNow,
            "snapshot snapshot-1 of volume vol is being deleted; another can be taken when it is gone",
        )
        await backend(world).create(creation("snapshot-2"))
        await holds(lambda: engine.names == {"snapshot-2"} and world.snapshot("snapshot-1") is None)


async def test_a_marked_parent_of_the_head_counts_where_longhorn_itself_tells_no_reason() -> None:
    world = World()
    world.volume()
    world.ask("snapshot-1")
    status = {"markRemoved": True, "children": {HEAD: True}, "creationTime": "2026-01-01T00:00:05Z"}
    world.api.edit(ENGINE_SNAPSHOTS, "snapshot-1", NS, merge={"status": status})
    await backend(world, AT_ONCE).delete(HANDLE)  # nobody looks after it here


async def test_a_removal_that_takes_long_is_uncertain_with_what_it_waits_for() -> None:
    world = World()
    world.volume()
    world.ask("snapshot-1")
    world.api.edit(ENGINE_SNAPSHOTS, "snapshot-1", NS, merge={"status": {"error": "replica is rebuilding"}})
    text = "snapshot snapshot-1 of volume vol is not removed after 0.05 s: replica is rebuilding"
    assert await refused(backend(world, AT_ONCE).delete(HANDLE)) == (Uncertain, text)


async def test_undo_finds_what_was_asked_for_by_its_name_and_asks_for_nothing() -> None:
    world = World()
    engine = world.volume()
    async with world.running():
        await backend(world).undo(creation())
        assert world.names() == set()
        await backend(world).create(creation())
        await backend(world).create(creation("later"))
        await backend(world).undo(creation())
        assert world.names() == engine.names == {"later"}


async def test_undo_leaves_what_belongs_to_another_volume() -> None:
    world = World()
    world.volume()
    world.volume("other")
    async with world.running():
        await backend(world).create(creation(volume="other"))
        await backend(world).undo(creation())
        assert world.ready("snapshot-1")


async def test_undo_is_uncertain_while_the_api_cannot_be_read() -> None:
    world = World()
    world.volume()
    client = LonghornBackend(cast(Client, Unreadable()), timeouts=AT_ONCE)
    assert await refused(client.undo(creation())) == (Uncertain, "Snapshot snapshot-1 cannot be read: no answer")


class Unreadable:
    async def find(self, *_: object) -> None:
        raise Unavailable("no answer")


async def test_a_snapshot_that_was_replaced_by_another_of_its_name_is_deleted_already() -> None:
    world = World()
    world.volume()
    world.ask("snapshot-1")

    def replaced(what: str) -> None:
        world.api.put(ENGINE_SNAPSHOTS, {"metadata": {"name": "snapshot-1", "namespace": NS, "uid": "another"}, "spec": {}})

    world.api.refuse = replaced
    await backend(world, AT_ONCE).delete(HANDLE)
    left = world.body(ENGINE_SNAPSHOTS, "snapshot-1")
    assert left is not None, "the other one is left alone"
    assert "deletionTimestamp" not in left["metadata"]


# --- looking ---------------------------------------------------------------------------------------------------------


async def test_snapshots_are_listed_by_volume_and_not_before_they_are_taken() -> None:
    world = World()
    world.volume()
    world.volume("other")
    async with world.running():
        for name, volume in (("s-1", "vol"), ("s-2", "other"), ("s-3", "vol")):
            await backend(world).create(creation(name, volume))
    world.ask("s-4")
    of_volume = {snapshot.handle async for snapshot in backend(world).list("vol")}
    everything = {snapshot.handle async for snapshot in backend(world).list()}
    assert of_volume == {"snap://vol/s-1", "snap://vol/s-3"}
    assert everything == of_volume | {"snap://other/s-2"}
    assert await backend(world).find("snap://other/s-1") is None


async def test_the_size_is_the_engines_and_the_estimate_that_of_the_head() -> None:
    world = World()
    engine = world.volume()
    world.api.edit(ENGINES, "vol-e-0", NS, merge={"metadata": {"labels": {"longhornvolume": "vol"}}})
    engine.grow(3 * MIB)
    async with world.running():
        await backend(world).create(creation())
        engine.grow(200 * MIB)
        await holds(lambda: (world.body(ENGINES, "vol-e-0") or {})["status"]["snapshots"][HEAD]["size"] == str(200 * MIB))
    assert await backend(world).size(HANDLE) == MIB
    assert await backend(world).estimate(VolumeHandle(handle="vol")) == 200 * MIB
    assert await backend(world).size("snap://vol/none") is None
    assert await backend(world).estimate(VolumeHandle(handle="none")) is None


def seen_engines(*engines: tuple[str, str, bool]) -> Cluster:
    """Engines of one volume as the API shows them: name, size of the head, whether it is the active one."""
    cluster = Cluster()
    for name, head, active in engines:
        meta = {"name": name, "labels": {"longhornvolume": "vol"}}
        spec = {"volumeName": "vol", "active": active}
        cluster.put(ENGINES, {"metadata": meta, "spec": spec, "status": {"snapshots": {HEAD: {"size": head}}}}, namespace=NS)
    return cluster


async def test_an_engine_that_can_be_asked_is_asked_for_its_head() -> None:
    """Its Engine shows growth with a delay."""
    asked: list[str] = []

    async def head(volume: str, *, volume_size: int = 0) -> int:
        asked.append(volume)
        return 5 * MIB

    longhorn = LonghornBackend(cast(Client, seen_engines(("vol-e-0", str(MIB), True))), head=head)
    assert await longhorn.estimate(VolumeHandle(handle="vol")) == 5 * MIB
    assert asked == ["vol"]


async def test_of_a_detached_volume_it_is_known_what_its_engine_said_last() -> None:
    async def head(volume: str, *, volume_size: int = 0) -> int:
        raise error(Reason.DETACHED, f"volume {volume} is not attached")

    longhorn = LonghornBackend(cast(Client, seen_engines(("vol-e-0", str(MIB), True))), head=head)
    assert await longhorn.estimate(VolumeHandle(handle="vol")) == MIB


@pytest.mark.parametrize(
    ("state", "shown", "size"),
    [
        pytest.param("stopped", False, 3 * MIB, id="what it was made with has no object yet"),
        pytest.param("stopped", True, MIB, id="an object pays for that"),
        pytest.param("running", False, MIB, id="it is attached, and gets that object now"),
    ],
)
async def test_what_a_restored_volume_was_made_with_counts_until_an_object_pays(state: str, shown: bool, size: int) -> None:
    cluster, labels = Cluster(), {"longhornvolume": "vol"}
    entries = {HEAD: {"size": str(MIB), "parent": "base"}, "base": {"size": str(2 * MIB)}}
    status = {"currentState": state, "snapshots": entries}
    body = {"metadata": {"name": "vol-e-0", "labels": labels}, "spec": {"volumeName": "vol", "active": True}, "status": status}
    cluster.put(ENGINES, body, namespace=NS)
    if shown:
        cluster.put(ENGINE_SNAPSHOTS, {"metadata": {"name": "base", "labels": labels}, "spec": {"volume": "vol"}}, namespace=NS)
    assert await LonghornBackend(cast(Client, cluster)).estimate(VolumeHandle(handle="vol")) == size


@pytest.mark.parametrize("problem", [Uncertain("no answer"), error(Reason.NO_REPLICA, "none is usable")], ids=["away", "ill"])
async def test_an_engine_that_runs_and_does_not_answer_is_not_guessed_at(problem: UllageError) -> None:
    async def head(volume: str, *, volume_size: int = 0) -> int:
        raise problem

    longhorn = LonghornBackend(cast(Client, seen_engines(("vol-e-0", str(MIB), True))), head=head)
    with pytest.raises(type(problem)):
        await longhorn.estimate(VolumeHandle(handle="vol"))


async def test_while_a_volume_migrates_the_active_engine_counts() -> None:
    cluster = seen_engines(("vol-e-0", str(MIB), False), ("vol-e-1", str(3 * MIB), True))
    assert await LonghornBackend(cast(Client, cluster)).estimate(VolumeHandle(handle="vol")) == 3 * MIB


async def test_the_api_is_asked_for_one_volume_only() -> None:
    cluster = Cluster()
    for name in ("vol", "other"):
        volume = msgspec.convert({"metadata": {"name": name, "namespace": NS, "uid": name}, "spec": {}}, VOLUMES.type)
        engine = msgspec.to_builtins(engine_for(volume))
        cluster.put(ENGINES, {**engine, "status": {"snapshots": {HEAD: {"size": str(len(name))}}}}, namespace=NS)
        meta = {"name": f"of-{name}", "labels": {"longhornvolume": name}}
        status = {"creationTime": "2026-01-01T00:00:05Z"}
        cluster.put(ENGINE_SNAPSHOTS, {"metadata": meta, "spec": {"volume": name}, "status": status}, namespace=NS)
    longhorn = LonghornBackend(cast(Client, cluster))
    assert await longhorn.estimate(VolumeHandle(handle="vol")) == 3
    assert [snapshot.handle async for snapshot in longhorn.list("vol")] == ["snap://vol/of-vol"]
    assert {selector for _, _, selector in cluster.asked} == {"longhornvolume=vol"}


@pytest.mark.parametrize(
    ("handle", "text"),
    [
        ("", "snapshot handle (empty): snap://VOLUME/SNAPSHOT is allowed"),
        ("snap://vol", "snapshot handle snap://vol: snap://VOLUME/SNAPSHOT is allowed"),
        ("snap://vol/../x", "snapshot handle snap://vol/../x: snap://VOLUME/SNAPSHOT is allowed"),
        ("vol/snapshot-1", "snapshot handle vol/snapshot-1: snap://VOLUME/SNAPSHOT is allowed"),
        (
            "bs://vol/backup-1",
            "snapshot handle bs://vol/backup-1: it stands for a backup, and those are Longhorn's own; "
            "snap://VOLUME/SNAPSHOT is allowed",
        ),
    ],
    ids=["nothing", "no snapshot", "a path", "without a beginning", "a backup"],
)
def test_what_is_no_handle(handle: str, text: str) -> None:
    with pytest.raises(Impossible) as caught:
        parsed(handle)
    assert str(caught.value) == text


def test_a_handle_reads_as_it_was_written() -> None:
    assert parsed(str(SnapshotHandle("vol", "snapshot-1"))) == SnapshotHandle("vol", "snapshot-1")


# --- restoring -------------------------------------------------------------------------------------------------------


async def with_snapshot(work: Callable[[World], Awaitable[None]]) -> None:
    world = World()
    world.volume(numberOfReplicas=3)
    async with world.running():
        await backend(world).create(creation())
        await work(world)


async def test_a_restored_volume_names_its_source_and_is_given_once_it_has_the_data() -> None:
    async def work(world: World) -> None:
        async with cloning(world, {"state": "initiated"}, {"state": "completed"}):
            asked = restoration(size=2 * GIB, parameters={"staleReplicaTimeout": "30"}, filesystem="ext4")
            found = await backend(world).restore(asked)
            assert await backend(world).restore(asked) == found
        attributes = {"staleReplicaTimeout": "30"}
        source = {"driver": "driver.longhorn.io", "volumeHandle": "pvc-1", "fsType": "ext4", "volumeAttributes": attributes}
        assert found == Restored(handle="pvc-1", size=2 * GIB, source={"csi": source})
        spec = {"size": str(2 * GIB), "numberOfReplicas": 3, "frontend": "blockdev", "dataSource": HANDLE}
        assert (world.body(VOLUMES, "pvc-1") or {})["spec"] == spec

    await with_snapshot(work)


async def test_a_volume_is_as_large_as_longhorn_makes_them_and_says_so() -> None:
    async def work(world: World) -> None:
        async with cloning(world, {"state": "completed"}):
            found = await backend(world).restore(restoration(size=GIB + 1))
        assert found.size == GIB + 2 * MIB
        assert (world.body(VOLUMES, "pvc-1") or {})["spec"]["size"] == str(GIB + 2 * MIB)

    await with_snapshot(work)


async def test_a_raw_device_has_no_file_system() -> None:
    async def work(world: World) -> None:
        async with cloning(world, {"state": "completed"}):
            found = await backend(world).restore(restoration(block=True, filesystem="ext4"))
        assert found.source == {"csi": {"driver": "driver.longhorn.io", "volumeHandle": "pvc-1"}}

    await with_snapshot(work)


async def test_a_copy_that_takes_long_is_uncertain_and_gone_on_with() -> None:
    async def work(world: World) -> None:
        async with cloning(world, {"state": "initiated", "message": "37 %"}):
            await refused(backend(world, AT_ONCE).restore(restoration()))
            found = await refused(backend(world, AT_ONCE).restore(restoration()))
        assert found == (Uncertain, f"volume pvc-1 has not the data of {HANDLE} after 0.05 s: 37 %")
        async with cloning(world, {"state": "completed"}):
            assert (await backend(world).restore(restoration())).handle == "pvc-1"

    await with_snapshot(work)


async def test_a_copy_that_failed_leaves_no_volume() -> None:
    async def work(world: World) -> None:
        async with cloning(world, {"state": "failed", "message": "no space left on device"}):
            found = await refused(backend(world).restore(restoration()))
        text = f"volume pvc-1 got no data from {HANDLE}, and was deleted again: no space left on device"
        assert found == (NotNow, text)
        assert world.body(VOLUMES, "pvc-1") is None

    await with_snapshot(work)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(
            restoration(size=GIB - 1),
            f"volume pvc-1: {GIB - 1} bytes are asked for, {GIB} are needed at least",
            id="a volume that is too small",
        ),
        pytest.param(
            restoration(snapshot="snap://vol/none"),
            "snapshot snap://vol/none does not exist, or is being deleted",
            id="no snapshot",
        ),
        pytest.param(
            restoration("vol"),
            f"volume vol is there already, made from no snapshot and not from {HANDLE}",
            id="a name that is taken",
        ),
        pytest.param(
            restoration(parameters={"numberOfReplicas": "many"}),
            "parameters.numberOfReplicas many: a number from 1 to 20 is allowed",
            id="replicas that are no number",
        ),
        pytest.param(
            restoration("a/b"),
            "volume handle a/b: the name of a Volume in longhorn-system is allowed",
            id="a path as a name",
        ),
    ],
)
async def test_what_cannot_be_restored(asked: Restoration, text: str) -> None:
    async def work(world: World) -> None:
        assert await refused(backend(world).restore(asked)) == (Impossible, text)
        assert len(world.api.bodies(VOLUMES)) == 1

    await with_snapshot(work)


async def test_a_restored_volume_that_somebody_holds_is_not_discarded() -> None:
    hold = Hold(id="1", kind="VolumeSnapshot", namespace="team", name="nightly", kept_by="VolumeSnapshotContent/snapcontent-1")

    async def work(world: World) -> None:
        async with cloning(world, {"state": "completed"}):
            await backend(world).restore(restoration())
        world.api.edit(VOLUMES, "pvc-1", NS, merge={"metadata": {"annotations": annotations_of([hold])}})
        text = "volume pvc-1 stays: it has the data of VolumeSnapshot team/nightly"
        assert await refused(backend(world).discard("pvc-1")) == (Held, text)
        assert world.body(VOLUMES, "pvc-1") is not None
        world.api.edit(VOLUMES, "pvc-1", NS, merge={"metadata": {"annotations": None}})
        await backend(world).discard("pvc-1")
        assert world.body(VOLUMES, "pvc-1") is None

    await with_snapshot(work)


async def test_only_what_was_restored_is_discarded() -> None:
    async def work(world: World) -> None:
        async with cloning(world, {"state": "completed"}):
            await backend(world).restore(restoration())
        for _ in range(2):
            await backend(world).discard("pvc-1")
            assert world.body(VOLUMES, "pvc-1") is None
        text = "volume vol was not made from a snapshot: it is not ours to delete"
        assert await refused(backend(world).discard("vol")) == (Impossible, text)

    await with_snapshot(work)
