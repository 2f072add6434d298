"""Claims and volumes against an API that fails at every step, and with caches that are behind it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.standalone.world.builders import OTHER_UID, UID, claim, storage_class, volume
from tests.unit.standalone.world.fake_api import FakeApi, Killed, Told
from ullage.errors import Terminal
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Conflict
from ullage.standalone.world.controllers.claim import ClaimBinder
from ullage.standalone.world.controllers.persistent_volume_hostpath import HostPathProvisioner
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.lookup import StorageLookup

NAME = f"pvc-{UID}"
CLAIM, VOLUME = Key("default", "data"), Key("", NAME)


class World:
    """One process: caches as they were when it was made. `step` looks at everything once."""

    def __init__(self, api: FakeApi, directories: Directories) -> None:
        self.storage = StorageLookup(api.wiring())
        self.told = Told()
        self.binder = ClaimBinder(api.client, self.storage, self.told.recorder)
        self.provisioner = HostPathProvisioner(api.client, self.storage, directories=directories, recorder=self.told.recorder)

    async def step(self) -> None:
        await self.provisioner.reconcile(VOLUME)
        await self.binder.reconcile(CLAIM)


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    made = Directories(tmp_path)
    made.open()
    return made


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi()
    made.put(STORAGE_CLASSES, storage_class())
    return made


async def rest(api: FakeApi, directories: Directories) -> None:
    """Fresh caches each time, until there is nothing left to write. A conflict is somebody's newer write: look again."""
    for _ in range(20):
        before = len(api.writes)
        try:
            await World(api, directories).step()
        except Conflict:
            continue
        if len(api.writes) == before:
            return
    raise AssertionError(f"never at rest: {api.writes}")


def state(api: FakeApi, directories: Directories) -> tuple[str, str, bool, bool]:
    """The phases of claim and volume, whether its directory is there, and whether it is noted."""
    claims = api.objects.get((CLAIMS.name, CLAIM), {}).get("status", {}).get("phase", "none")
    volumes = api.objects.get((PERSISTENT_VOLUMES.name, VOLUME), {}).get("status", {}).get("phase", "none")
    return claims, volumes, (directories.root / NAME).is_dir(), directories.has_made(NAME)


BOUND = ("Bound", "Bound", True, True)
GONE = ("none", "none", False, False)


@pytest.mark.parametrize("writes", range(4))
async def test_a_kill_before_any_write_is_made_up_for_by_the_next_process(
    api: FakeApi, directories: Directories, writes: int
) -> None:
    api.put(CLAIMS, claim())
    api.die_before = writes
    with suppress(Killed):
        await rest(api, directories)
    api.die_before = None
    await rest(api, directories)
    assert state(api, directories) == BOUND
    assert api.writes == [
        f"POST persistentvolumes {NAME}",
        f"persistentvolumes/status {NAME}",
        "persistentvolumeclaims data",
        "persistentvolumeclaims/status data",
    ]


@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize("after", range(4))
async def test_a_claim_that_goes_at_any_moment_leaves_nothing_whenever_processes_are_killed(
    api: FakeApi, directories: Directories, before: int, after: int
) -> None:
    api.put(CLAIMS, claim())
    api.die_before = before
    with suppress(Killed):
        await rest(api, directories)
    api.take(CLAIMS, "data", "default")
    api.die_before = len(api.writes) + after
    with suppress(Killed):
        await rest(api, directories)
    api.die_before = None
    await rest(api, directories)
    assert state(api, directories) == GONE


async def test_a_process_killed_between_directory_and_volume_goes_on_with_the_same_directory(
    api: FakeApi, directories: Directories
) -> None:
    api.put(CLAIMS, claim())
    (directories.make(NAME) / "file").write_text("content")
    await rest(api, directories)
    assert state(api, directories) == BOUND
    assert (directories.root / NAME / "file").read_text() == "content"


# --- caches that are behind ------------------------------------------------------------------------------------------


async def test_a_volume_that_the_cache_does_not_know_yet_is_not_lost(api: FakeApi, directories: Directories) -> None:
    api.put(CLAIMS, claim(bound=True, volume_name=NAME, phase="Bound"))
    world = World(api, directories)
    api.put(PERSISTENT_VOLUMES, volume(NAME, claimed_by=UID, phase="Bound", ours=True))
    await world.binder.reconcile(CLAIM)
    assert (state(api, directories)[0], world.told.reasons) == ("Bound", [])


async def test_a_volume_that_the_api_does_not_know_either_is(api: FakeApi, directories: Directories) -> None:
    api.put(CLAIMS, claim(bound=True, volume_name=NAME, phase="Bound"))
    world = World(api, directories)
    await world.binder.reconcile(CLAIM)
    assert (state(api, directories)[0], world.told.reasons) == ("Lost", ["ClaimLost"])


async def test_a_claim_that_the_cache_does_not_know_yet_keeps_its_volume(api: FakeApi, directories: Directories) -> None:
    directories.make(NAME)
    api.put(
        PERSISTENT_VOLUMES, volume(NAME, claimed_by=UID, phase="Bound", ours=True, persistent_volume_reclaim_policy="Delete")
    )
    world = World(api, directories)
    api.put(CLAIMS, claim(bound=True, volume_name=NAME, phase="Bound"))
    await world.provisioner.reconcile(VOLUME)
    assert state(api, directories) == BOUND


async def test_a_directory_whose_volume_the_cache_does_not_know_yet_stays(api: FakeApi, directories: Directories) -> None:
    directories.make(NAME)
    world = World(api, directories)
    api.put(PERSISTENT_VOLUMES, volume(NAME, claimed_by=UID, phase="Bound", ours=True))
    await world.provisioner.reconcile(VOLUME)
    assert (directories.root / NAME).is_dir()


async def test_the_files_of_a_claim_that_lost_its_volume_stay_as_long_as_the_claim(
    api: FakeApi, directories: Directories
) -> None:
    directories.make(NAME)
    api.put(CLAIMS, claim(bound=True, volume_name=NAME, phase="Bound"))
    await rest(api, directories)
    assert state(api, directories) == ("Lost", "none", True, True)
    api.take(CLAIMS, "data", "default")
    await rest(api, directories)
    assert state(api, directories) == GONE


async def test_the_second_of_two_that_saw_a_volume_free_does_not_get_it(api: FakeApi, directories: Directories) -> None:
    free = volume("free", phase="Available")
    api.put(PERSISTENT_VOLUMES, free)
    api.put(CLAIMS, claim())
    behind = World(api, directories)
    taken = volume("free", claimed_by=OTHER_UID, phase="Bound")
    api.put(PERSISTENT_VOLUMES, taken)
    with pytest.raises(Conflict):
        await behind.binder.reconcile(CLAIM)
    assert api.objects[PERSISTENT_VOLUMES.name, Key("", "free")]["spec"]["claimRef"]["uid"] == OTHER_UID
    assert state(api, directories)[0] == "Pending"


async def test_a_restored_volume_is_bound_and_released_and_never_taken_away(api: FakeApi, directories: Directories) -> None:
    (directories.root / NAME).mkdir()
    api.put(CLAIMS, claim(data_source={"kind": "VolumeSnapshot"}))
    restored = volume(
        NAME,
        claimed_by=UID,
        phase="",
        persistent_volume_reclaim_policy="Delete",
        annotations={"pv.kubernetes.io/provisioned-by": "ullage.io/hostpath", "ullage.io/restored-from": "default/s"},
    )
    api.put(PERSISTENT_VOLUMES, restored)
    await rest(api, directories)
    assert state(api, directories) == ("Bound", "Bound", True, False)
    api.take(CLAIMS, "data", "default")
    await rest(api, directories)
    assert state(api, directories) == ("none", "Released", True, False)
    api.take(PERSISTENT_VOLUMES, NAME)
    await rest(api, directories)
    assert (directories.root / NAME).is_dir(), "what the world did not make it does not remove"


# --- what is in the way of a deletion -----------------------------------------------------------------------------------


async def test_a_volume_that_cannot_be_deleted_says_why_and_how_to_get_out_and_goes_when_that_is_done(
    api: FakeApi, directories: Directories, tmp_path: Path
) -> None:
    api.put(CLAIMS, claim())
    await rest(api, directories)
    path = directories.root / NAME
    path.rmdir()
    path.symlink_to(tmp_path)
    api.take(CLAIMS, "data", "default")
    with pytest.raises(Terminal):
        await rest(api, directories)
    for _ in range(3):
        world = World(api, directories)
        writes = len(api.writes)
        with pytest.raises(Terminal, match="a symbolic link is in the place of a volume"):
            await world.provisioner.reconcile(VOLUME)
        assert world.told.reasons == ["VolumeFailedDelete"]
        assert len(api.writes) == writes, "the same is not written again"
    status = api.objects[PERSISTENT_VOLUMES.name, VOLUME]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "VolumeFailedDelete")
    assert f"{path}: a symbolic link" in status["message"]
    assert "remove what is at that path by hand" in status["message"]
    assert "take its finalizer ullage.io/hostpath off" in status["message"]
    path.unlink()
    await rest(api, directories)
    assert state(api, directories) == GONE
