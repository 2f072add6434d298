"""The end of a restored volume: when it is deleted, and who is asked first."""

from __future__ import annotations

import pytest

from tests.unit.snapshots.controllers.cluster import NAME, World
from ullage.errors import Impossible, NotNow, Retryable
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.cache.indexer import Key
from ullage.snapshots.backends.base import NO_SECRETS, Held, Secrets


async def test_a_volume_goes_with_its_claim() -> None:
    world = World().everything()
    await world.live()
    world.api.fuse.log.clear()
    world.delete_claim()
    await world.live()
    assert world.api.fuse.log == ["discard vol-1", f"delete persistentvolumes {NAME}", f"patch persistentvolumes {NAME}"]
    assert (world.storage.volumes, world.volume()) == ({}, None)


async def test_a_retained_volume_stays_until_an_administrator_lets_it_go_and_its_data_longer() -> None:
    world = World().everything()
    world.storage_class(reclaimPolicy="Retain")
    await world.live()
    world.delete_claim()
    await world.live()
    assert world.volume() is not None
    world.api.remove(PERSISTENT_VOLUMES, NAME)
    await world.live()
    assert world.volume() is None
    assert list(world.storage.volumes) == ["vol-1"]


async def test_a_persistent_volume_that_is_deleted_under_its_claim_stays_until_the_claim_goes() -> None:
    world = World().everything()
    await world.live()
    world.api.remove(PERSISTENT_VOLUMES, NAME)
    await world.live()
    assert (world.volume() is not None, world.storage.discarded) == (True, [])
    world.delete_claim()
    await world.live()
    assert (world.volume(), world.storage.volumes) == (None, {})


@pytest.mark.parametrize(
    "claim_ref",
    [
        pytest.param(None, id="freed for anybody"),
        pytest.param({"uid": None, "name": "next"}, id="kept for the next claim"),
    ],
)
async def test_a_volume_that_an_administrator_saved_from_its_claim_is_not_deleted(claim_ref: object) -> None:
    world = World().everything()
    await world.live()
    world.api.edit(PERSISTENT_VOLUMES, NAME, merge={"spec": {"claimRef": claim_ref}})
    world.delete_claim()
    await world.live()
    assert (world.volume() is not None, world.storage.discarded) == (True, [])


async def test_a_new_claim_of_the_name_does_not_save_the_volume_of_the_old_one() -> None:
    world = World().everything()
    await world.live()
    world.delete_claim()
    world.claim(dataSourceRef=None)
    world.api.edit(CLAIMS, "copy", "team", merge={"metadata": {"uid": "uid-later"}})
    await world.live()
    assert (world.volume(), world.storage.volumes) == (None, {})


async def test_a_volume_that_somebody_else_made_is_not_ours_to_delete() -> None:
    world = World().everything()
    await world.live()
    world.api.edit(PERSISTENT_VOLUMES, NAME, merge={"metadata": {"annotations": {"ullage.io/restored-from": None}}})
    world.delete_claim()
    await world.live()
    assert (world.volume() is not None, world.storage.discarded) == (True, [])


async def test_a_claim_that_only_the_api_knows_of_keeps_its_volume() -> None:
    world = World().everything()
    await world.live()
    async with world.process() as process:
        await process.current()
        process.volumes.claims.get = lambda key: None  # type: ignore[method-assign]
        await process.reclaimer.reconcile(Key("", NAME))
    assert (world.volume() is not None, world.storage.discarded) == (True, [])


async def test_a_policy_that_was_changed_a_moment_ago_counts() -> None:
    world = World().everything()
    await world.live()
    world.delete_claim()
    async with world.process() as process:
        await process.current()
        seen = process.volumes.volumes.get(Key("", NAME))
        world.api.edit(PERSISTENT_VOLUMES, NAME, merge={"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        process.volumes.volumes.get = lambda key: seen  # type: ignore[method-assign]
        await process.reclaimer.reconcile(Key("", NAME))
    assert (world.volume() is not None, world.storage.discarded) == (True, [])


@pytest.mark.parametrize(
    ("error", "reason", "note"),
    [
        pytest.param(
            NotNow("the volume is attached to node-1"),
            "VolumeDeleteFailed",
            "the volume is attached to node-1; it is tried again",
            id="in use",
        ),
        pytest.param(
            Held("volume pvc-1 stays: it has the data of VolumeSnapshot team/nightly"),
            "VolumeHeld",
            "volume pvc-1 stays: it has the data of VolumeSnapshot team/nightly; it goes when they are deleted",
            id="somebody's snapshots are in it",
        ),
    ],
)
async def test_a_volume_that_cannot_be_deleted_says_so_and_stays(error: NotNow, reason: str, note: str) -> None:
    world = World().everything()
    await world.live()
    world.delete_claim()

    async def busy(handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        raise error

    world.storage.discard = busy  # type: ignore[method-assign]
    async with world.process() as process:
        assert isinstance(await process.look(), Retryable)
    assert world.told.events[-1] == ("Warning", reason, note)
    volume = world.volume()
    assert volume is not None
    assert volume["status"]["message"] == note


async def test_a_volume_that_will_never_be_deleted_as_it_is_says_how_to_get_out() -> None:
    world = World().everything()
    await world.live()
    world.delete_claim()

    async def refuse(handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        raise Impossible("volume pvc-1: is not a directory, and so not ours")

    world.storage.discard = refuse  # type: ignore[method-assign]
    async with world.process() as process:
        assert isinstance(await process.look(), Impossible)
        assert isinstance(await process.look(), Impossible)
    volume = world.volume()
    assert volume is not None
    assert volume["status"]["phase"] == "Failed"
    assert "take finalizer ullage.io/restored-volume off it" in volume["status"]["message"]


@pytest.mark.parametrize("moment", range(1, 7))
async def test_a_process_that_dies_while_it_deletes_a_volume_leaves_the_rest_to_the_next(moment: int) -> None:
    world = World().everything()
    await world.live()
    world.delete_claim()
    assert await world.live(blows_at=moment)
    await world.live()
    assert (world.storage.volumes, world.volume()) == ({}, None)
