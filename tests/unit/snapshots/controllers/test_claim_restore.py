"""Claims that are filled from snapshots: what is written, in which order, and what is left when a process dies in between."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.snapshots.controllers.cluster import DRIVER, GIB, NAME, World, fails
from ullage.clock import SystemClock
from ullage.errors import Impossible, NotNow, Retryable, Terminal, Uncertain
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, SECRETS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Requeue
from ullage.kube.errors import Forbidden, Unavailable
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.backends.base import InProgress, Restoration, Restored
from ullage.snapshots.controllers.claim_restore import PROGRESS_SECONDS
from ullage.snapshots.controllers.claim_restore_eligibility import PROVISIONERS
from ullage.snapshots.controllers.claim_restore_rules import BINDER_SECONDS
from ullage.snapshots.controllers.snapshot_bind import Binder
from ullage.snapshots.data_source import RESTORING
from ullage.snapshots.metrics import Metrics
from ullage.snapshots.model import SHARED_BY
from ullage.snapshots.settings import Settings
from ullage.snapshots.volume_queue import VolumeQueues


class Frozen(SystemClock):
    """Time stands still until a test moves it."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


COPY = Key("team", "copy")
PROTECTION = "kubernetes.io/pvc-protection"
LATER = "; it is tried again when claim, class or snapshot change, or after 30 minutes"
STEPS = [
    "patch persistentvolumeclaims copy",
    f"restore {NAME}",
    f"create persistentvolumes {NAME}",
    "patch persistentvolumeclaims copy",
]


# --- making ----------------------------------------------------------------------------------------------------------


async def test_a_claim_gets_a_volume_with_the_data_of_its_snapshot() -> None:
    world = World().everything()
    await world.live()
    assert world.api.fuse.log == STEPS
    restoration = Restoration(name=NAME, snapshot="shot-1", size=2 * GIB, owner="team")
    assert world.storage.asked == [restoration]
    assert world.finalizers() == [PROTECTION]
    assert world.told.events == [("Normal", "Restored", f"volume {NAME} was made from VolumeSnapshot team/snap")]
    claim = world.api.body(CLAIMS, "copy", "team")
    assert claim is not None
    assert claim["spec"]["volumeName"] == NAME


async def test_nothing_is_written_before_the_binder_has_asked_or_its_time_is_over() -> None:
    clock = Frozen()
    world = World(clock=clock).everything()
    world.api.edit(CLAIMS, "copy", "team", merge={"metadata": {"annotations": {PROVISIONERS[0]: None}}})
    async with world.process() as process:
        await process.current()
        assert await process.restorer.reconcile(COPY) == Requeue(BINDER_SECONDS)
        clock.seconds += 0.5
        assert await process.restorer.reconcile(COPY) == Requeue(BINDER_SECONDS - 0.5)
        assert world.api.fuse.log == []
        clock.seconds += BINDER_SECONDS
        assert await process.restorer.reconcile(COPY) is None
    assert world.api.fuse.log == STEPS


async def test_a_copy_that_takes_long_shows_its_bytes_on_the_claim_and_is_asked_for_again() -> None:
    world, looks = World().everything(), iter(("copied 1Gi of 2Gi", "copied 2Gi of 2Gi"))

    def goes_on() -> None:
        if (told := next(looks, "")) != "":
            raise InProgress(told)

    def shown() -> str:
        claim = world.api.body(CLAIMS, "copy", "team")
        assert claim is not None
        return str(claim["metadata"].get("annotations", {}).get("ullage.io/progress", ""))

    world.storage.before = goes_on
    async with world.process() as process:
        for told in ("copied 1Gi of 2Gi", "copied 2Gi of 2Gi"):
            await process.current()
            assert await process.restorer.reconcile(COPY) == Requeue(PROGRESS_SECONDS)
            assert (shown(), world.volume(), world.told.events) == (told, None, [])
            assert "ullage.io/restoring" in world.finalizers(), "the claim and its snapshot stay"
        await process.current()
        assert await process.restorer.reconcile(COPY) is None
    assert world.volume() is not None
    assert (shown(), world.finalizers()) == ("", [PROTECTION])


async def test_the_persistent_volume_says_whose_it_is_and_how_it_goes() -> None:
    world = World().everything()
    world.storage_class(
        reclaimPolicy="Retain",
        mountOptions=["noatime"],
        parameters={
            "csi.storage.k8s.io/node-stage-secret-name": "stage",
            "csi.storage.k8s.io/node-stage-secret-namespace": "${pvc.namespace}",
        },
    )
    async with world.process() as process:
        await process.current()
        await process.restorer.reconcile(COPY)
    found = world.volume()
    assert found is not None
    assert found["metadata"]["annotations"] == {
        "pv.kubernetes.io/provisioned-by": DRIVER,
        "ullage.io/restored-from": "team/snap",
        "ullage.io/volume-handle": "vol-1",
    }
    assert found["metadata"]["finalizers"] == ["ullage.io/restored-volume"]
    assert found["spec"] == {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "fast",
        "persistentVolumeReclaimPolicy": "Retain",
        "mountOptions": ["noatime"],
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "team",
            "name": "copy",
            "uid": "uid-copy",
        },
        "csi": {
            "driver": DRIVER,
            "volumeHandle": "vol-1",
            "nodeStageSecretRef": {"name": "stage", "namespace": "team"},
        },
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
                ]
            }
        },
    }


async def test_a_snapshot_that_is_taken_back_in_the_moment_in_which_a_claim_is_begun_fills_it_no_more() -> None:
    """Whoever deletes the record looks for claims that are begun; whoever begins one looks at the snapshot afterwards."""
    world = World().everything()
    world.api.edit(GA.records, "content", merge={"metadata": {"annotations": {SHARED_BY: "grant"}}})
    world.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"finalizers": ["held"]}})
    after = world.api.fuse.after

    def revoked() -> None:
        after()
        if world.api.fuse.log == STEPS[:1]:
            world.api.remove(GA.snapshots, "snap", "team")

    world.api.fuse.after = revoked  # type: ignore[method-assign]
    async with world.process() as process:
        await process.current()
        await process.restorer.reconcile(COPY)
    assert (world.storage.asked, world.finalizers()) == ([], [PROTECTION])
    blocked = "VolumeSnapshot team/snap is being deleted, no restore of it is begun"
    assert world.told.events == [("Warning", "SnapshotDeleting", blocked)]


async def test_what_is_taken_back_waits_for_a_claim_that_was_begun_before_the_caches_show_it() -> None:
    world = World().everything()
    world.api.edit(GA.records, "content", merge={"metadata": {"annotations": {SHARED_BY: "grant"}}})
    world.api.edit(GA.snapshots, "snap", "team", merge={"metadata": {"finalizers": ["held"]}})
    world.api.remove(GA.snapshots, "snap", "team")
    async with world.process() as process:
        await process.current()
        binder = Binder(
            cast(Client, world.api),
            process.lookups[0],
            process.volumes,
            settings=Settings(drivers={DRIVER: "here"}),
            queues=VolumeQueues(),
            recorder=cast(Any, world.told),
            metrics=Metrics(clock=SystemClock()),
        )
        world.api.edit(CLAIMS, "copy", "team", merge={"metadata": {"finalizers": [RESTORING]}})
        await binder.reconcile(Key("team", "snap"))
        assert not any(one.startswith("delete ") for one in world.api.fuse.log)
        world.api.edit(CLAIMS, "copy", "team", merge={"metadata": {"finalizers": []}})
        await process.current()
        await binder.reconcile(Key("team", "snap"))
    assert any(one.startswith("delete ") for one in world.api.fuse.log), "it waits, and is not waited for"


async def test_a_claim_of_another_provisioner_is_left_alone() -> None:
    world = World().everything()
    world.storage_class(provisioner="theirs.example.com")
    await world.live()
    assert (world.api.fuse.log, world.told.events) == ([], [])


async def test_a_refused_claim_is_told_and_not_touched() -> None:
    world = World().everything()
    world.claim(resources={"requests": {"storage": "1Mi"}})
    await world.live()
    assert world.api.fuse.log == []
    assert world.told.events[0][:2] == ("Warning", "SizeTooSmall")


# --- secrets ---------------------------------------------------------------------------------------------------------


def with_secret(world: World) -> None:
    world.storage_class(
        parameters={
            "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}",
            "csi.storage.k8s.io/provisioner-secret-namespace": "storage",
        }
    )


def secret(world: World) -> None:
    data = {"password": base64.b64encode(b"hunter2").decode()}
    world.api.put(SECRETS, {"metadata": {"name": "copy", "namespace": "storage"}, "data": data})


async def test_the_secret_of_the_class_is_handed_over_to_make_and_to_delete() -> None:
    world = World().everything()
    with_secret(world)
    secret(world)
    await world.live()
    assert world.storage.asked[0].secrets.values == {"password": "hunter2"}
    world.api.remove(STORAGE_CLASSES, "fast")  # it is not needed any more
    world.delete_claim()
    await world.live()
    assert [(handle, secrets.values) for handle, secrets in world.storage.discarded] == [("vol-1", {"password": "hunter2"})]
    assert world.volume() is None
    assert "hunter2" not in str(world.told.events)


async def test_a_secret_that_is_missing_is_waited_for_and_nothing_is_begun() -> None:
    world = World().everything()
    with_secret(world)
    async with world.process() as process:
        assert isinstance(await process.look(), Retryable)
        assert world.api.fuse.log == []
        assert world.told.events == [("Warning", "RestoreRetried", "Secret storage/copy does not exist; it is tried again")]
        secret(world)
        await process.rest()
    assert world.volume() is not None


# --- errors of the storage system ------------------------------------------------------------------------------------


async def test_what_is_impossible_is_told_and_nothing_is_held() -> None:
    world = World().everything()
    world.storage.before = fails(Impossible("the snapshot has another size"))
    async with world.process() as process:
        assert isinstance(await process.look(), Terminal)
    assert world.told.events == [("Warning", "RestoreFailed", f"the snapshot has another size{LATER}")]
    assert world.finalizers() == [PROTECTION]


async def test_what_does_not_work_now_holds_neither_the_claim_nor_the_snapshot() -> None:
    world = World().everything()
    world.storage.before = fails(NotNow("the pool is full"))
    async with world.process() as process:
        assert isinstance(await process.look(), Retryable)
        assert world.told.events == [("Warning", "RestoreRetried", "the pool is full; it is tried again")]
        assert world.finalizers() == [PROTECTION]
        await process.rest()
    assert world.volume() is not None


async def test_an_answer_that_is_lost_is_asked_for_again() -> None:
    world = World().everything()
    world.storage.after = fails(Uncertain("no answer"))
    async with world.process() as process:
        assert isinstance(await process.look(), Retryable)
        assert RESTORING in world.finalizers()
        await process.rest()
    assert list(world.storage.volumes.values()) == [NAME]
    assert world.finalizers() == [PROTECTION]


async def test_not_now_after_a_lost_answer_does_not_let_go_of_what_may_have_been_made() -> None:
    world = World().everything()
    world.storage.after = fails(Uncertain("no answer"))
    async with world.process() as process:
        await process.look()
        world.storage.before = fails(NotNow("the driver restarts"))
        await process.look()
        assert RESTORING in world.finalizers()
        world.delete_claim()
        await process.rest()
    assert world.storage.volumes == {}
    assert world.api.body(CLAIMS, "copy", "team") is None


async def test_a_refusal_after_a_lost_answer_does_not_let_go_of_what_may_have_been_made() -> None:
    world = World().everything()
    world.storage.after = fails(Uncertain("no answer"))
    async with world.process() as process:
        await process.look()
        world.storage.before = fails(Impossible("no such pool"))
        assert isinstance(await process.look(), Terminal)
        assert RESTORING in world.finalizers()
        world.delete_claim()
        await process.rest()
    assert world.storage.volumes == {}
    assert world.api.body(CLAIMS, "copy", "team") is None


async def test_a_refusal_after_a_death_keeps_the_mark_until_undo_finds_nothing() -> None:
    world = World().everything()
    assert await world.live(blows_at=STEPS.index(f"restore {NAME}") * 2 + 2)  # it is made, and nobody has heard of it
    async with world.process() as process:
        world.storage.before = fails(Impossible("no such pool"))
        assert isinstance(await process.look(), Terminal)
        assert (RESTORING in world.finalizers(), list(world.storage.volumes.values())) == (True, [NAME])
        world.delete_claim()
        await process.rest()
    assert world.storage.volumes == {}
    assert world.api.body(CLAIMS, "copy", "team") is None


async def test_a_volume_that_is_too_small_is_deleted_again() -> None:
    world = World().everything()
    restore = world.storage.restore

    async def smaller(restoration: Restoration) -> Restored:
        return replace(await restore(restoration), size=GIB)

    world.storage.restore = smaller  # type: ignore[method-assign]
    async with world.process() as process:
        assert isinstance(await process.look(), Terminal)
    assert world.told.events == [
        ("Warning", "RestoreFailed", f"the storage system made 1073741824 bytes, 2147483648 were asked for{LATER}")
    ]
    assert (world.storage.volumes, world.finalizers()) == ({}, [PROTECTION])


# --- errors of the API -----------------------------------------------------------------------------------------------


def refusing(what: str, error: Exception) -> Callable[[str], None]:
    def refuse(asked: str) -> None:
        if asked.startswith(what):
            raise error

    return refuse


async def test_a_persistent_volume_that_is_refused_leaves_no_volume_behind() -> None:
    world = World().everything()
    world.api.refuse = refusing("create persistentvolumes", Forbidden("a quota says no", code=403))
    async with world.process() as process:
        assert isinstance(await process.look(), Terminal)
    assert (world.storage.volumes, world.finalizers()) == ({}, [PROTECTION])
    assert world.told.events == [("Warning", "RestoreFailed", f"a quota says no{LATER}")]


async def test_an_api_that_is_away_is_waited_for() -> None:
    world = World().everything()
    world.api.refuse = refusing("create persistentvolumes", Unavailable("away"))
    async with world.process() as process:
        assert isinstance(await process.look(), Retryable)
        assert RESTORING in world.finalizers()
        world.api.refuse = lambda what: None
        await process.rest()
    assert list(world.storage.volumes) == ["vol-1"]


async def test_a_claim_that_the_drivers_own_provisioner_fills_is_left_to_it() -> None:
    world = World(elsewhere=frozenset({DRIVER})).everything()
    async with world.process() as process:
        await process.look()
    assert world.storage.asked == []
    assert world.told.events == []


@pytest.mark.parametrize("goes", [False, True], ids=["the claim stays", "the claim goes meanwhile"])
async def test_a_volume_that_another_provisioner_made_under_the_name_is_not_deleted(goes: bool) -> None:
    world = World().everything()
    world.storage.volumes["vol-9"] = NAME  # to the driver the name is the same, so it gives this one to whoever asks
    theirs = {"csi": {"driver": DRIVER, "volumeHandle": "vol-9"}, "capacity": {"storage": "1Gi"}}
    world.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": NAME}, "spec": theirs})
    if goes:
        world.storage.after = lambda: world.api.remove(CLAIMS, "copy", "team")
    async with world.process() as process:
        await process.look()
        world.storage.after = lambda: None
        await process.look()
    assert world.storage.volumes == {"vol-9": NAME}
    assert RESTORING not in world.finalizers()


async def test_a_persistent_volume_of_that_name_that_is_not_ours_stays_as_it_is() -> None:
    world = World().everything()
    world.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": NAME}, "spec": {"capacity": {"storage": "1Gi"}}})
    async with world.process() as process:
        assert isinstance(await process.look(), Terminal)
    assert world.told.events == [
        ("Warning", "RestoreFailed", f"PersistentVolume {NAME} is there already, and was not restored for this claim{LATER}")
    ]
    assert (world.storage.volumes, RESTORING in world.finalizers()) == ({}, False)


async def test_a_persistent_volume_that_another_process_wrote_meanwhile_is_taken_as_our_own() -> None:
    first = World().everything()
    await first.live()
    written = first.volume()
    world = World().everything()

    def meanwhile(asked: str) -> None:
        if asked.startswith("create persistentvolumes") and written is not None:
            world.api.put(PERSISTENT_VOLUMES, written)

    world.api.refuse = meanwhile
    async with world.process() as process:
        assert await process.look() is None
    assert (list(world.storage.volumes), world.storage.discarded) == (["vol-1"], [])
    assert world.finalizers() == [PROTECTION]


# --- death between any two steps -------------------------------------------------------------------------------------

MOMENTS = range(1, 2 * len(STEPS) + 1)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_process_that_dies_at_any_moment_leaves_one_volume_to_the_next(moment: int) -> None:
    world = World().everything()
    assert await world.live(blows_at=moment)
    await world.live()
    assert list(world.storage.volumes.values()) == [NAME]
    assert world.volume() is not None
    assert world.finalizers() == [PROTECTION]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_claim_that_is_deleted_at_any_moment_leaves_nothing(moment: int) -> None:
    world = World().everything()
    assert await world.live(blows_at=moment, meanwhile=world.delete_claim)
    await world.live()
    assert (world.storage.volumes, world.volume()) == ({}, None)
    assert world.api.body(CLAIMS, "copy", "team") is None


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("second", range(1, 9))
async def test_two_deaths_and_a_deletion_leave_nothing_either(moment: int, second: int) -> None:
    world = World().everything()
    await world.live(blows_at=moment, meanwhile=world.delete_claim)
    await world.live(blows_at=second)
    await world.live()
    assert (world.storage.volumes, world.volume()) == ({}, None)
    assert world.api.body(CLAIMS, "copy", "team") is None


async def test_a_cache_that_is_behind_by_a_whole_life_makes_nothing_anew() -> None:
    """The claim as it was in the middle, long after it and its volume are gone."""
    world = World().everything()
    await world.live(blows_at=3)  # the finalizer is on, nothing is made
    async with world.process() as stale:
        await stale.current()
        held = stale.volumes.claims.get(COPY)
        assert held is not None
        await world.live()
        world.delete_claim()
        await world.live()
        before = world.storage.made
        stale.volumes.claims.get = lambda key: held  # type: ignore[method-assign]
        await stale.restorer.reconcile(COPY)
    assert (world.storage.made, world.storage.volumes, world.volume()) == (before, {}, None)
