"""Volumes of engines as Longhorn would have them: for claims, for pods, for tickets, and filled from each other's snapshots."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.standalone.world.longhorn import NAME, SIZE, Place, place_in
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, FINALIZER
from ullage.engines.api import VOLUMES as ENGINE_VOLUMES
from ullage.engines.chain import HEAD
from ullage.engines.handles import DRIVER, NAMESPACE
from ullage.engines.holds import Hold, annotations_of
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PODS
from ullage.standalone.world.controllers import longhorn_volume as controller
from ullage.standalone.world.longhorn import VOLUME_FINALIZER

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DETACHED, ATTACHED = ("detached", "stopped"), ("attached", "running")
MIB = 1 << 20

# --- claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["Block", "Filesystem"])
async def test_a_claim_is_bound_to_a_volume_that_nobody_uses_yet(tmp_path: Path, mode: str) -> None:
    async with place_in(tmp_path) as place:
        place.claim(mode=mode)
        await place.live(lambda: place.is_bound() and place.states() == DETACHED)
        made = place.api.body(PERSISTENT_VOLUMES, NAME)
        assert made is not None
        assert made["spec"]["csi"]["driver"] == DRIVER
        assert made["spec"]["csi"]["volumeHandle"] == NAME
        assert await place.on_host() == {NAME: False}
        assert [one.size for one in await place.host.list()] == [SIZE]


async def test_processes_may_die_at_every_effect_while_a_claim_comes_and_goes(tmp_path: Path) -> None:
    moment = 0
    async with place_in(tmp_path) as first:
        while True:
            moment += 1
            place = first.again()
            place.fuse.blows_at = moment
            place.claim()
            place.pod()
            await place.live(lambda place=place: place.is_bound() and place.states() == ATTACHED)  # type: ignore[misc]
            assert await place.on_host() == {NAME: True}, place.fuse.log
            place.api.remove(PODS, "app", "default")
            place.api.remove(CLAIMS, "data", "default")
            await place.live(lambda place=place: not place.left())  # type: ignore[misc]
            assert await place.on_host() == {}, place.fuse.log
            if place.fuse.passed < moment:
                return


async def test_a_claim_may_go_at_every_moment_of_its_volume_s_making(tmp_path: Path) -> None:
    moment = 0
    async with place_in(tmp_path) as first:
        while True:
            moment += 1
            place = first.again()
            place.claim()
            place.fuse.blows_at = moment
            await place.lives(lambda place=place: place.is_bound() and place.states() == DETACHED)  # type: ignore[misc]
            was_cut = place.fuse.passed >= moment
            place.api.remove(CLAIMS, "data", "default")
            await place.live(lambda place=place: not place.left())  # type: ignore[misc]
            assert await place.on_host() == {}, place.fuse.log
            if not was_cut:
                return


async def test_what_is_to_be_retained_stays_when_its_persistent_volume_goes(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.claim()
        await place.live(lambda: place.is_bound() and place.states() == DETACHED)
        place.api.edit(PERSISTENT_VOLUMES, NAME, merge={"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        place.api.remove(CLAIMS, "data", "default")
        place.api.remove(PERSISTENT_VOLUMES, NAME)
        await place.live(lambda: place.api.body(PERSISTENT_VOLUMES, NAME) is None)
        place.volume("another")  # whatever happens next has happened when this one is there
        await place.live(lambda: place.states("another") == DETACHED)
        assert place.states() == DETACHED
        assert await place.on_host() == {NAME: False, "another": False}


# --- attached and detached -------------------------------------------------------------------------------------------


async def test_a_volume_is_attached_while_a_pod_uses_it(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.claim()
        place.pod()
        await place.live(lambda: place.states() == ATTACHED)
        assert await place.on_host() == {NAME: True}
        place.pod("Succeeded")
        await place.live(lambda: place.states() == DETACHED)
        assert await place.on_host() == {NAME: False}


def shown(place: Place, volume: str) -> dict[str, int]:
    """The sizes of what the Engine shows."""
    body = place.api.body(ENGINES, f"{volume}-e-0", NAMESPACE) or {}
    return {name: int(one["size"]) for name, one in (body.get("status", {}).get("snapshots") or {}).items()}


async def test_a_volume_that_was_never_attached_is_known_to_be_empty(tmp_path: Path) -> None:
    """Its snapshot would be charged with its capacity otherwise."""
    async with place_in(tmp_path) as place:
        place.claim()
        await place.live(lambda: place.states() == DETACHED)
        assert shown(place, NAME) == {HEAD: 0}
        assert await place.on_host() == {NAME: False}, "it was looked at where it is"


async def test_a_volume_of_before_is_looked_at_when_its_engine_shows_nothing(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.claim()
        await place.live(lambda: place.states() == DETACHED)
        await place.host.attach(NAME)
        await place.host.write(NAME, offset=0, data=b"x" * (2 << 20))
        await place.host.detach(NAME)
        place.api.edit(ENGINES, f"{NAME}-e-0", NAMESPACE, merge={"status": {"snapshots": None}})
        await place.live(lambda: shown(place, NAME) == {HEAD: 2 << 20})


async def test_what_was_written_last_is_shown_when_a_volume_is_detached(tmp_path: Path) -> None:
    """Nobody can ask its engine afterwards, and its next snapshot takes that."""
    async with place_in(tmp_path) as place:
        place.claim()
        place.pod()
        await place.live(lambda: place.states() == ATTACHED)
        await place.host.write(NAME, offset=0, data=b"x" * (3 << 20))
        place.pod("Succeeded")
        await place.live(lambda: place.states() == DETACHED)
        body = place.api.body(ENGINES, f"{NAME}-e-0", NAMESPACE)
        assert body is not None
        assert body["status"]["snapshots"][HEAD]["size"] == str(3 << 20)


async def test_an_engine_that_died_before_it_was_detached_keeps_what_was_seen_of_it(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.volume("v", nodeID="ullage")
        await place.live(lambda: place.states("v") == ATTACHED)
        seen = {HEAD: {"size": "4096"}}
        place.api.edit(ENGINES, "v-e-0", NAMESPACE, merge={"status": {"snapshots": seen}})
        await place.host.detach("v")  # as after the end of its process
        place.api.edit(ENGINE_VOLUMES, "v", NAMESPACE, merge={"spec": {"nodeID": ""}})
        await place.live(lambda: place.states("v") == DETACHED)
        body = place.api.body(ENGINES, "v-e-0", NAMESPACE)
        assert body is not None
        assert body["status"]["snapshots"][HEAD]["size"] == "4096"


async def test_a_ticket_attaches_a_volume_until_it_runs_out(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.volume("v")
        await place.live(lambda: place.states("v") == DETACHED)
        place.ticket("v", seconds=1.2)  # a timestamp has whole seconds
        await place.live(lambda: place.states("v") == ATTACHED)
        await place.live(lambda: place.states("v") == DETACHED)
        assert await place.on_host() == {"v": False}


async def test_what_the_host_forgot_is_attached_again_once_its_engine_cannot_be_asked(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.volume("v", nodeID="ullage")
        async with place.living() as settles:
            await settles(lambda: place.states("v") == ATTACHED)
            await place.host.detach("v")  # as after the end of its process
            calls = place.fuse.log.count("host attach")
            error = {"status": {"snapshotsError": "volume v is not attached"}}
            place.api.edit(ENGINES, "v-e-0", NAMESPACE, merge=error)
            await settles(lambda: place.fuse.log.count("host attach") > calls)
        assert await place.on_host() == {"v": True}


async def test_a_host_that_dies_again_before_its_engine_is_looked_at_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Engine's status says the same as before, so that no change of it wakes anybody."""
    monkeypatch.setattr(controller, "ATTACH_AGAIN", 0.02)
    async with place_in(tmp_path) as place:
        place.volume("v", nodeID="ullage")
        async with place.living() as settles:
            await settles(lambda: place.states("v") == ATTACHED)
            error = {"status": {"snapshotsError": "volume v is not attached"}}
            place.api.edit(ENGINES, "v-e-0", NAMESPACE, merge=error)
            calls = place.fuse.log.count("host attach")
            await settles(lambda: place.fuse.log.count("host attach") > calls)
            await place.host.detach("v")
            calls = place.fuse.log.count("host attach")
            await settles(lambda: place.fuse.log.count("host attach") > calls + 1)
        assert await place.on_host() == {"v": True}


async def test_a_volume_is_held_before_it_has_data(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.volume("v")
        await place.live(lambda: place.states("v") == DETACHED)
        log = place.fuse.log
        held = log.index("patch volumes.longhorn.io v")
        assert held < log.index("create engines.longhorn.io v-e-0") < log.index("host create")
        body = place.api.body(ENGINE_VOLUMES, "v", NAMESPACE)
        assert body is not None
        assert VOLUME_FINALIZER in body["metadata"]["finalizers"]


async def test_the_data_stays_until_the_last_snapshot_is_let_go(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.volume("v")
        await place.live(lambda: place.states("v") == DETACHED)
        owner = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": "v", "uid": "uid-v"}
        meta = {"name": "s", "namespace": NAMESPACE, "finalizers": [FINALIZER], "ownerReferences": [owner]}
        place.api.put(ENGINE_SNAPSHOTS, {"metadata": meta, "spec": {"volume": "v"}})
        place.api.remove(ENGINE_VOLUMES, "v", NAMESPACE)
        place.volume("another")  # what would have happened to the first has happened when this one is there
        await place.live(lambda: place.states("another") == DETACHED)
        assert "v" in await place.on_host()
        place.api.edit(ENGINE_SNAPSHOTS, "s", NAMESPACE, merge={"metadata": {"finalizers": None, "deletionTimestamp": "x"}})
        await place.live(lambda: place.left() == ["another", "another-e-0"])
        assert await place.on_host() == {"another": False}


async def test_a_size_that_cannot_be_is_told(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.volume("v", size="5")
        await place.live(lambda: "EngineFault" in place.told.reasons)
        assert "4096" in place.told.events[-1][2]
        place.api.remove(ENGINE_VOLUMES, "v", NAMESPACE)
        await place.live(lambda: not place.left())


async def test_a_volume_of_an_earlier_one_s_name_begins_empty(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        await place.host.create("v", size=SIZE)  # somebody took the earlier one away by force
        await place.host.attach("v")
        await place.host.write("v", offset=0, data=b"x" * 4096)
        await place.host.engine("v").snapshot("old")
        owner = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "name": "v", "uid": "earlier"}
        meta = {"name": "v-e-0", "namespace": NAMESPACE, "uid": "e", "ownerReferences": [owner]}
        place.api.put(ENGINES, {"metadata": meta, "spec": {"volumeName": "v"}})
        place.volume("v", nodeID="ullage")
        await place.live(lambda: place.states("v") == ATTACHED)
        assert await place.host.read("v", offset=0, length=4096) == bytes(4096)
        assert set((await place.host.engine("v").snapshots()).entries) == {"volume-head"}


# --- clones ----------------------------------------------------------------------------------------------------------


async def origin(place: Place) -> None:
    """A volume with a snapshot, and something written after it."""
    place.volume("origin", nodeID="ullage")
    await place.live(lambda: place.states("origin") == ATTACHED)
    await place.host.write("origin", offset=MIB, data=b"then" * 1024)
    await place.host.engine("origin").snapshot("s")
    await place.host.write("origin", offset=MIB, data=b"now." * 1024)
    place.api.edit(ENGINE_VOLUMES, "origin", NAMESPACE, merge={"spec": {"nodeID": ""}})
    await place.live(lambda: place.states("origin") == DETACHED)


@pytest.mark.slow
async def test_processes_may_die_at_every_effect_while_a_volume_is_filled_from_a_snapshot(tmp_path: Path) -> None:
    moment = 0
    async with place_in(tmp_path) as first:
        while True:
            moment += 1
            place = first.again()
            await origin(place)
            place.fuse.blows_at = place.fuse.passed + moment
            place.volume("copy", nodeID="ullage", dataSource="snap://origin/s")
            await place.live(lambda place=place: place.states("copy") == ATTACHED and place.states("origin") == DETACHED)  # type: ignore[misc]
            assert place.clone_state("copy") == "completed"
            assert await place.host.read("copy", offset=MIB, length=4096) == b"then" * 1024, place.fuse.log
            over = place.fuse.passed < place.fuse.blows_at
            for name in ("origin", "copy"):
                place.api.remove(ENGINE_VOLUMES, name, NAMESPACE)
            await place.live(lambda place=place: not place.left())  # type: ignore[misc]
            assert await place.on_host() == {}, place.fuse.log
            if over:
                return


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param("snap://origin/none", "snapshot none of volume origin does not exist", id="no such snapshot"),
        pytest.param("snap://nobody/s", "volume nobody does not exist, or is going", id="no such volume"),
        pytest.param("backup://x", "snap://VOLUME/SNAPSHOT is allowed", id="not a snapshot"),
    ],
)
async def test_a_source_that_is_not_there_fails_for_good_and_says_why(tmp_path: Path, source: str, problem: str) -> None:
    async with place_in(tmp_path) as place:
        await origin(place)
        place.volume("copy", nodeID="ullage", dataSource=source)
        await place.live(lambda: place.clone_state("copy") == "failed" and place.states("origin") == DETACHED)
        body = place.api.body(ENGINE_VOLUMES, "copy", NAMESPACE)
        assert body is not None
        assert problem in body["status"]["cloneStatus"]["message"]
        assert place.states("copy")[0] == "detached"
        assert not (await place.on_host())["copy"]


async def test_a_copy_that_nobody_uses_is_detached(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        await origin(place)
        place.volume("copy", dataSource="snap://origin/s")
        await place.live(lambda: place.states("copy") == DETACHED and place.states("origin") == DETACHED)
        assert place.clone_state("copy") == "completed"
        assert await place.on_host() == {"origin": False, "copy": False}


async def test_a_volume_too_small_for_the_snapshot_fails(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        await origin(place)
        place.volume("copy", size=str(SIZE // 2), dataSource="snap://origin/s")
        await place.live(lambda: place.clone_state("copy") == "failed")


async def test_a_volume_that_is_held_outlives_its_claim_until_nobody_holds_it(tmp_path: Path) -> None:
    hold = Hold(id="1", kind="VolumeSnapshot", namespace="team", name="nightly", kept_by="VolumeSnapshotContent/snapcontent-1")
    note = f"volume {NAME} stays: it has the data of VolumeSnapshot team/nightly; it goes when they are deleted"
    async with place_in(tmp_path) as place:
        place.claim()
        await place.live(place.is_bound)
        place.api.edit(ENGINE_VOLUMES, NAME, NAMESPACE, merge={"metadata": {"annotations": annotations_of([hold])}})
        place.api.remove(CLAIMS, "data", "default")
        await place.live(lambda: _status(place).get("message") == note)
        assert place.api.body(CLAIMS, "data", "default") is None
        assert (_status(place)["phase"], _status(place)["reason"]) == ("Released", "VolumeHeld")
        assert ("Warning", "VolumeHeld", note) in place.told.events
        place.api.remove(PERSISTENT_VOLUMES, NAME)  # an administrator who is not patient
        async with place.living() as settles:
            await settles(lambda: "deletionTimestamp" in (place.api.body(PERSISTENT_VOLUMES, NAME) or {})["metadata"])
            volume = place.api.body(ENGINE_VOLUMES, NAME, NAMESPACE)
            assert volume is not None
            assert "deletionTimestamp" not in volume["metadata"]
            place.api.edit(ENGINE_VOLUMES, NAME, NAMESPACE, merge={"metadata": {"annotations": {"hold.ullage.io/1": None}}})
            await settles(lambda: not place.left())
        assert await place.on_host() == {}


def _status(place: Place) -> dict[str, str]:
    return dict((place.api.body(PERSISTENT_VOLUMES, NAME) or {}).get("status") or {})
