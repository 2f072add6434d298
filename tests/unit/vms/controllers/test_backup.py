"""Backups, with a snapshotter that measures and cuts: all volumes together or none, through every kill."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.vms.builders import CLOUD_INIT, IMAGE, NAMESPACE, body, claim_volume, data_volume, machine_body
from tests.unit.vms.controllers.cluster import CUT_TIME, DRIVER, GIB, Cluster, stamp
from ullage.kube.errors import Forbidden, Refused
from ullage.ledger.charging.stamps import ESTIMATED_BY, PLAN, STAMP
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS
from ullage.snapshots.gate import written
from ullage.snapshots.model import CUT, ESTIMATE
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.model import BACKUP_FINALIZER

Json = dict[str, Any]


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.machine("a", "b")
    return made


def notes(cluster: Cluster, name: str = "one") -> Json:
    found = cluster.api.body(VM_BACKUPS, name, NAMESPACE)
    assert found is not None
    return dict(found["metadata"]["annotations"])


# --- what comes of one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["backup", "snapshot"])
async def test_all_volumes_are_cut_and_the_vm_is_kept_whole(cluster: Cluster, kind: str) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB}, type=kind)
    await cluster.live()
    status = cluster.status()
    assert (status["readyToUse"], status["progress"], status["creationTime"]) == (True, 100, CUT_TIME)
    assert cluster.condition("Ready") == (
        "True",
        "Ready",
        "the VM can be restored from it: 2 volumes, cut within 0 s of each other",
    )
    assert cluster.condition("InProgress")[:2] == ("False", "Complete")
    assert status["sourceUID"] == "uid-db"
    assert status["source"]["spec"]["template"]["spec"]["domain"] == {"devices": {}}, "what we have no type for, too"
    assert [(one["volumeName"], one["name"], one["csiDriverName"]) for one in status["volumeBackups"]] == [
        ("disk-a", "one-volume-a", DRIVER),
        ("disk-b", "one-volume-b", DRIVER),
    ]
    kept = status["volumeBackups"][0]["persistentVolumeClaim"]
    assert (kept["metadata"]["name"], kept["spec"]["storageClassName"]) == ("a", "fast")
    assert cluster.told.reasons == ["BackupStarted", "BackupCut", "BackupReady"]


async def test_members_belong_to_the_backup_and_are_held(cluster: Cluster) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    async with cluster.process() as process:
        await process.look()
        await process.look()
    member = cluster.members()["a"]
    (owner,) = member["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("VirtualMachineBackup", "uid-one", True)
    assert member["metadata"]["annotations"] == {CUT: "hold"}
    assert "volumeSnapshotClassName" not in member["spec"], "the default of the driver"
    found = cluster.api.body(VM_BACKUPS, "one", NAMESPACE)
    assert found is not None
    assert found["metadata"]["finalizers"] == [BACKUP_FINALIZER]
    assert cluster.condition("InProgress")[1:] == (
        "Preparing",
        "nothing is cut before all volumes are ready; disk-a, disk-b are not",
    )


async def test_nothing_is_cut_before_every_member_has_been_measured(cluster: Cluster) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    cluster.broken = {"b": "DriverRetrying: the array is busy"}
    await cluster.live()
    assert cluster.cuts == []
    assert cluster.members()["a"]["metadata"]["annotations"][CUT] == "hold"
    assert cluster.condition("Ready")[2] == (
        "nothing is cut before all volumes are ready; disk-b is not; volume disk-b (claim b): the array is busy"
    )
    cluster.broken = {}
    cluster.api.edit(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE, merge={"status": {"error": None}})
    await cluster.live()
    assert sorted(cluster.cuts) == ["a", "b"]
    assert cluster.status()["readyToUse"] is True


async def test_what_is_booked_before_the_cut_is_the_sum_of_what_was_measured(cluster: Cluster) -> None:
    cluster.backup(paid={"a": 1, "b": 1})
    cluster.sizes = {"a": 2 * GIB, "b": 3 * GIB}
    await cluster.live()
    assert json.loads(notes(cluster)[STAMP]) == json.loads(stamp(5 * GIB, "db").replace(str(5 * GIB), "5Gi"))
    assert json.loads(notes(cluster)[PLAN]) == {"a": 2 * GIB, "b": 3 * GIB}


async def test_of_a_shared_claim_the_other_vm_pays_for_that_claim_alone(cluster: Cluster) -> None:
    cluster.machine("b", name="other")
    cluster.backup(paid={"a": 1, "b": 1})
    cluster.api.edit(VM_BACKUPS, "one", NAMESPACE, merge={"metadata": {"annotations": {STAMP: stamp(2, "db", "other")}}})
    cluster.sizes = {"a": 2 * GIB, "b": 3 * GIB}
    await cluster.live()
    booked = json.loads(notes(cluster)[STAMP])
    assert {account: amounts["storage"] for account, amounts in booked.items()} == {
        "snapshots/namespace": "5Gi",
        "snapshots/vm/db": "5Gi",
        "snapshots/vm/other": "3Gi",
    }


async def test_where_nobody_is_charged_nothing_is_booked(cluster: Cluster) -> None:
    cluster.backup()
    await cluster.live()
    assert cluster.status()["readyToUse"] is True
    assert STAMP not in notes(cluster)


async def test_one_that_has_grown_when_it_is_told_is_booked_again(cluster: Cluster) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    async with cluster.process() as process:
        await process.look()
        await process.look()
        cluster.play()
        await process.look()
        assert cluster.members()["b"]["metadata"]["annotations"][CUT].startswith("go@")
    cluster.sizes["b"] = 4 * GIB
    await cluster.live()
    assert sorted(cluster.cuts) == ["a", "b"]
    assert json.loads(notes(cluster)[PLAN]) == {"a": GIB, "b": 4 * GIB}


# --- refused and failed ----------------------------------------------------------------------------------------------


async def test_a_sum_that_does_not_fit_fails_the_backup_as_a_whole(cluster: Cluster) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    cluster.sizes, cluster.limit = {"a": GIB, "b": 2 * GIB}, 2 * GIB
    await cluster.live()
    assert (cluster.cuts, cluster.snapshots()) == ([], {})
    state, reason, message = cluster.condition("Failed")
    assert (state, reason) == ("True", "SnapshotSpaceExceeded")
    said = (
        f"snapshots of its 2 volumes take 3Gi by now, which does not fit: asked {3 * GIB}, limit {2 * GIB}; "
        "since it was admitted these have grown: claim b from 1Gi to 2Gi"
    )
    assert message == f"{said}. No volume is kept; delete this backup, and create another"
    assert cluster.status()["error"]["message"] == f"SnapshotSpaceExceeded: {said}"
    assert cluster.told.reasons[-1] == "BackupFailed"


async def test_growth_that_is_refused_after_the_first_cut_undoes_that_one_too(cluster: Cluster) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    async with cluster.process() as process:
        await process.look()
        await process.look()
        cluster.play()
        await process.look()
    cluster.sizes["b"], cluster.limit = 4 * GIB, 2 * GIB
    await cluster.live()
    assert cluster.cuts == ["a"]
    assert cluster.snapshots() == {}
    assert cluster.condition("Failed")[1] == "SnapshotSpaceExceeded"


@pytest.mark.parametrize(
    ("problem", "reason", "text"),
    [
        pytest.param(
            "DriverError: the array is full",
            "DriverError",
            "volume disk-b (claim b): the array is full",
            id="the driver says never",
        ),
        pytest.param(
            "NoDefaultClass: no class is marked", "NoDefaultClass", "volume disk-b (claim b): no class is marked", id="no class"
        ),
    ],
)
async def test_a_member_that_fails_takes_the_others_along(cluster: Cluster, problem: str, reason: str, text: str) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    cluster.broken = {"b": problem}
    await cluster.live()
    assert (cluster.snapshots(), cluster.cuts) == ({}, [])
    assert cluster.condition("Failed")[1:] == (reason, f"{text}. No volume is kept; delete this backup, and create another")
    assert (cluster.status()["readyToUse"], cluster.status().get("progress")) == (False, None)
    assert cluster.told.events[-1] == ("Warning", "BackupFailed", f"{reason}: {text}")


async def test_several_that_fail_are_counted(cluster: Cluster) -> None:
    cluster.backup()
    cluster.broken = {"a": "DriverError: no", "b": "DriverError: no"}
    await cluster.live()
    assert cluster.status()["error"]["message"] == (
        "DriverError: volume disk-a (claim a): no; 1 more of its 2 volumes failed, too"
    )


async def test_a_failed_backup_is_not_tried_again(cluster: Cluster) -> None:
    cluster.backup()
    cluster.broken = {"b": "DriverError: no"}
    await cluster.live()
    cluster.broken = {}
    await cluster.live()
    assert cluster.snapshots() == {}


async def test_a_name_that_is_taken_fails_the_backup_and_leaves_what_is_there_alone(cluster: Cluster) -> None:
    cluster.api.put(
        VOLUME_SNAPSHOTS, body(VOLUME_SNAPSHOTS, "one-volume-b", spec={"source": {"persistentVolumeClaimName": "b"}})
    )
    cluster.backup()
    await cluster.live()
    assert list(cluster.snapshots()) == ["one-volume-b"]
    assert cluster.status()["error"]["message"] == (
        "SnapshotNameTaken: volume disk-b (claim b): VolumeSnapshot one-volume-b exists already, "
        "and was not made for this backup"
    )


async def test_a_member_that_is_deleted_before_the_cut_is_made_again(cluster: Cluster) -> None:
    cluster.backup()
    async with cluster.process() as process:
        await process.look()
        await process.look()
    cluster.api.remove(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE)
    await cluster.live()
    assert cluster.status()["readyToUse"] is True


async def test_a_member_that_is_deleted_after_the_others_were_cut_fails_the_backup(cluster: Cluster) -> None:
    cluster.backup()
    async with cluster.process() as process:
        await process.look()
        await process.look()
        cluster.play()
        await process.look()
    cluster.api.remove(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE)
    await cluster.live()
    assert cluster.snapshots() == {}
    assert cluster.condition("Failed")[1] == "SnapshotMissing"


@pytest.mark.parametrize(
    ("where", "reason", "text"),
    [
        pytest.param(
            "create volumesnapshots.snapshot.storage.k8s.io one-volume-b",
            "SnapshotRefused",
            "volume disk-b: VolumeSnapshot one-volume-b was refused: exceeded quota",
            id="a member that the cluster refuses",
        ),
    ],
)
async def test_what_the_api_server_refuses_fails_the_backup_in_its_words(
    cluster: Cluster, where: str, reason: str, text: str
) -> None:
    def refuse(what: str) -> None:
        if what == where:
            raise Forbidden("exceeded quota", code=403)

    cluster.api.refuse = refuse
    cluster.backup()
    await cluster.live()
    assert cluster.status()["error"]["message"] == f"{reason}: {text}"
    assert cluster.snapshots() == {}


async def test_a_vm_that_is_too_large_to_be_kept_fails_its_backup(cluster: Cluster) -> None:
    seen = 0

    def refuse(what: str) -> None:
        nonlocal seen
        seen += what == "patch virtualmachinebackups.harvesterhci.io one"
        if what == "patch virtualmachinebackups.harvesterhci.io one" and seen == 2:  # the first is the finalizer
            raise Refused("Request entity too large", code=413)

    cluster.api.refuse = refuse
    cluster.backup()
    await cluster.live()
    assert cluster.status()["error"]["message"] == (
        "PlanRefused: what is known of the VM cannot be kept in the backup: Request entity too large"
    )
    assert cluster.snapshots() == {}


# --- what VMs are like -----------------------------------------------------------------------------------------------


async def test_a_vm_without_volumes_is_kept_by_its_spec_alone(cluster: Cluster) -> None:
    cluster.api.put(VIRTUAL_MACHINES, machine_body(IMAGE, CLOUD_INIT))
    cluster.backup()
    await cluster.live()
    assert (cluster.status()["readyToUse"], cluster.snapshots()) == (True, {})
    assert cluster.condition("Ready")[2] == (
        "the VM can be restored from it; it has no volume with a claim, so nothing but its spec is kept"
    )


async def test_data_volumes_are_cut_and_images_are_not(cluster: Cluster) -> None:
    cluster.api.put(VIRTUAL_MACHINES, machine_body(IMAGE, data_volume("a"), CLOUD_INIT))
    cluster.backup()
    await cluster.live()
    assert (cluster.cuts, cluster.status()["readyToUse"]) == (["a"], True)


async def test_a_claim_that_is_pending_is_waited_for(cluster: Cluster) -> None:
    cluster.claim("late", bound=False)
    cluster.api.put(VIRTUAL_MACHINES, machine_body(claim_volume("a"), claim_volume("late")))
    cluster.backup()
    await cluster.live()
    assert cluster.snapshots() == {}, "nothing is begun"
    assert cluster.condition("InProgress") == (
        "True",
        "ClaimNotBound",
        "volume disk-late: claim team/late is Pending; the snapshot is taken once the claim is Bound",
    )
    cluster.claim("late")
    await cluster.live()
    assert sorted(cluster.cuts) == ["a", "late"]


async def test_a_claim_that_does_not_exist_fails_the_backup(cluster: Cluster) -> None:
    cluster.api.put(VIRTUAL_MACHINES, machine_body(claim_volume("a"), claim_volume("none")))
    cluster.backup()
    await cluster.live()
    assert cluster.condition("Failed")[1:] == (
        "ClaimNotFound",
        "volume disk-none: claim team/none does not exist; create it, or snapshot another claim. "
        "No volume is kept; delete this backup, and create another",
    )


async def test_a_vm_that_migrates_is_waited_for(cluster: Cluster) -> None:
    moving = {"migrationState": {"startTimestamp": CUT_TIME}}
    cluster.api.put(INSTANCES, body(INSTANCES, "db", spec={}, status=moving))
    cluster.backup()
    await cluster.live()
    assert (cluster.snapshots(), cluster.condition("InProgress")[1]) == ({}, "MachineMigrating")
    cluster.api.edit(INSTANCES, "db", NAMESPACE, merge={"status": {"migrationState": {"completed": True}}})
    await cluster.live()
    assert cluster.status()["readyToUse"] is True


async def test_a_vm_that_does_not_exist_fails_the_backup(cluster: Cluster) -> None:
    cluster.api.remove(VIRTUAL_MACHINES, "db", NAMESPACE)
    cluster.backup()
    await cluster.live()
    assert cluster.condition("Failed")[1] == "MachineNotFound"
    assert cluster.status()["error"]["message"] == "MachineNotFound: VM team/db does not exist"


async def test_a_vm_that_is_deleted_meanwhile_is_backed_up_all_the_same(cluster: Cluster) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    async with cluster.process() as process:
        await process.look()
    cluster.api.remove(VIRTUAL_MACHINES, "db", NAMESPACE)
    await cluster.live()
    assert cluster.status()["readyToUse"] is True
    assert cluster.status()["source"]["metadata"]["name"] == "db"


async def test_a_claim_that_came_after_the_admission_is_paid_for_before_it_is_cut(cluster: Cluster) -> None:
    cluster.backup(paid={"a": GIB})
    async with cluster.process() as process:
        await process.look()
    assert json.loads(notes(cluster)[PLAN]) == {"a": GIB, "b": GIB}


# --- duration --------------------------------------------------------------------------------------------------------


async def test_one_that_is_stored_for_a_day_waits_and_says_so(cluster: Cluster) -> None:
    cluster.backup()
    async with cluster.process() as process:
        await process.look()
        await process.look()
        cluster.play()
        await process.look()
        for name in ("one-volume-a", "one-volume-b"):
            ready = name == "one-volume-a"
            status = {"creationTime": CUT_TIME, "readyToUse": ready}
            cluster.api.edit(VOLUME_SNAPSHOTS, name, NAMESPACE, merge={"status": status})
        await process.look()
        cluster.clock.advance(86400)
        await process.look()
        assert cluster.condition("InProgress") == ("True", "Storing", "all volumes are cut; disk-b is being stored")
        assert cluster.status()["progress"] == 75
        before = cluster.api.version
        await process.look()
        assert cluster.api.version == before, "nothing is written where nothing moves"
        cluster.api.edit(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE, merge={"status": {"readyToUse": True}})
        await process.look()
    assert cluster.status()["readyToUse"] is True


async def test_an_estimate_that_is_too_old_lets_nothing_be_cut(cluster: Cluster) -> None:
    cluster.backup()
    async with cluster.process() as process:
        await process.look()
        await process.look()
        cluster.play()
        cluster.broken = {"b": "DriverRetrying: busy"}
        cluster.api.edit(
            CONTENTS, "snapcontent-uid-one-volume-b", merge={"metadata": {"annotations": {"ullage.io/estimate": None}}}
        )
        await process.look()
        cluster.clock.advance(11)
        note = '{"bytes":1,"at":"2026-01-01T00:00:30.000000Z"}'
        merge = {"metadata": {"annotations": {"ullage.io/estimate": note}}}
        cluster.api.edit(CONTENTS, "snapcontent-uid-one-volume-b", merge=merge)
        await process.look()
        words = {one["metadata"]["annotations"][CUT] for one in cluster.snapshots().values()}
        assert words == {"hold"}, "that of the first is old by now"
        cluster.broken = {}
        cluster.play()
        await process.look()
        assert all(one["metadata"]["annotations"][CUT].startswith("go@") for one in cluster.snapshots().values())


async def test_volumes_that_take_long_to_measure_are_cut_although_never_all_estimates_are_new(cluster: Cluster) -> None:
    def measure(claim: str) -> None:
        note = {ESTIMATE: written(1, cluster.clock.now(), group=True, by="capacity")}
        cluster.api.edit(CONTENTS, f"snapcontent-uid-one-volume-{claim}", merge={"metadata": {"annotations": note}})

    def words() -> set[str]:
        return {one["metadata"]["annotations"][CUT].partition("@")[0] for one in cluster.snapshots().values()}

    cluster.backup()
    async with cluster.process() as process:
        await process.look()
        await process.look()
        cluster.play()
        gone = {"metadata": {"annotations": {ESTIMATE: None}}}
        cluster.api.edit(CONTENTS, "snapcontent-uid-one-volume-b", merge=gone)
        await process.look()
        for number in range(10):
            assert words() == {"hold"}, number
            cluster.clock.advance(14)
            measure("ab"[(number + 1) % 2])
            await process.look()
    assert words() == {"go"}


async def test_the_worst_method_is_the_method_of_the_sum(cluster: Cluster) -> None:
    cluster.backup(paid={"a": 1, "b": 1})
    await cluster.live()
    assert notes(cluster)[ESTIMATED_BY] == "measured"


# --- afterwards ------------------------------------------------------------------------------------------------------


async def test_a_backup_whose_snapshot_is_lost_says_so_and_keeps_the_others(cluster: Cluster) -> None:
    cluster.backup()
    await cluster.live()
    lost = {"readyToUse": False, "error": {"message": "SnapshotLost: the array has it no more"}}
    cluster.api.edit(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE, merge={"status": lost})
    async with cluster.process() as process:
        await process.look()
    assert cluster.status()["readyToUse"] is False
    assert cluster.condition("Ready")[1:] == (
        "SnapshotLost",
        "volume disk-b (claim b): VolumeSnapshot one-volume-b has lost its data",
    )
    assert len(cluster.snapshots()) == 2
    assert cluster.told.reasons[-1] == "BackupBroken"
    cluster.api.edit(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE, merge={"status": {"readyToUse": True, "error": None}})
    await cluster.live()
    assert cluster.status()["readyToUse"] is True
    assert "error" not in cluster.status()


async def test_a_backup_that_is_deleted_takes_its_snapshots_along_and_goes_when_nothing_is_paid_any_more(
    cluster: Cluster,
) -> None:
    cluster.backup(paid={"a": GIB, "b": GIB})
    await cluster.live()
    cluster.api.remove(VM_BACKUPS, "one", NAMESPACE)
    async with cluster.process() as process:
        await process.look()
        assert cluster.snapshots() == {}
        await process.look()
        assert cluster.api.body(VM_BACKUPS, "one", NAMESPACE) is not None, "it still pays"
        cluster.settle_payments()
        await process.look()
    assert cluster.api.body(VM_BACKUPS, "one", NAMESPACE) is None


async def test_a_deleted_backup_waits_until_its_snapshots_are_gone(cluster: Cluster) -> None:
    cluster.backup()
    await cluster.live()
    cluster.api.edit(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE, merge={"metadata": {"finalizers": ["bound"]}})
    cluster.api.remove(VM_BACKUPS, "one", NAMESPACE)
    async with cluster.process() as process:
        await process.look()
        await process.look()
        assert cluster.api.body(VM_BACKUPS, "one", NAMESPACE) is not None
        cluster.api.edit(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE, merge={"metadata": {"finalizers": None}})
        await process.look()
    assert cluster.api.body(VM_BACKUPS, "one", NAMESPACE) is None


async def test_an_orphaning_deletion_leaves_the_snapshots(cluster: Cluster) -> None:
    cluster.backup()
    await cluster.live()
    cluster.api.edit(VM_BACKUPS, "one", NAMESPACE, merge={"metadata": {"finalizers": [BACKUP_FINALIZER, "orphan"]}})
    cluster.api.remove(VM_BACKUPS, "one", NAMESPACE)
    async with cluster.process() as process:
        await process.look()
        assert len(cluster.snapshots()) == 2
        for name in cluster.snapshots():
            cluster.api.edit(VOLUME_SNAPSHOTS, name, NAMESPACE, merge={"metadata": {"ownerReferences": None}})
        cluster.api.edit(VM_BACKUPS, "one", NAMESPACE, merge={"metadata": {"finalizers": [BACKUP_FINALIZER]}})
        await process.look()
    assert cluster.api.body(VM_BACKUPS, "one", NAMESPACE) is None
    assert len(cluster.snapshots()) == 2


# --- kills -----------------------------------------------------------------------------------------------------------


async def effects(prepare: Any) -> int:
    cluster = prepare()
    await cluster.live()
    return int(cluster.api.fuse.passed)


def good() -> Cluster:
    made = Cluster()
    made.machine("a", "b")
    made.backup(paid={"a": GIB, "b": 1})
    return made


def refused() -> Cluster:
    made = good()
    made.limit, made.sizes = GIB, {"a": GIB, "b": GIB}
    return made


def failing_late() -> Cluster:
    made = good()
    made.breaks_when_told = {"b": "DriverError: the array is full"}
    return made


async def test_killed_at_any_moment_one_that_fails_during_the_cut_keeps_nothing_and_its_reason() -> None:
    for moment in range(1, await effects(failing_late) + 1):
        cluster = failing_late()
        assert await cluster.live(blows_at=moment), moment
        await cluster.live()
        assert cluster.condition("Failed")[1] == "DriverError", moment
        assert cluster.snapshots() == {}, moment


async def test_killed_at_any_moment_it_is_complete_all_the_same() -> None:
    for moment in range(1, await effects(good) + 1):
        cluster = good()
        assert await cluster.live(blows_at=moment), moment
        await cluster.live()
        assert cluster.status()["readyToUse"] is True, moment
        assert sorted(cluster.cuts) == ["a", "b"], f"each once, killed at {moment}"
        assert json.loads(notes(cluster)[PLAN]) == {"a": GIB, "b": GIB}


async def test_killed_at_any_moment_a_refused_one_leaves_nothing() -> None:
    for moment in range(1, await effects(refused) + 1):
        cluster = refused()
        assert await cluster.live(blows_at=moment), moment
        await cluster.live()
        assert cluster.condition("Failed")[1] == "SnapshotSpaceExceeded", moment
        assert (cluster.snapshots(), cluster.cuts) == ({}, []), moment


async def test_killed_at_any_moment_a_deletion_leaves_nothing() -> None:
    async def deleted() -> Cluster:
        made = good()
        await made.live()
        made.api.remove(VM_BACKUPS, "one", NAMESPACE)
        return made

    cluster = await deleted()
    await cluster.live()
    for moment in range(1, cluster.api.fuse.passed + 1):
        again = await deleted()
        assert await again.live(blows_at=moment), moment
        await again.live()
        assert (again.api.body(VM_BACKUPS, "one", NAMESPACE), again.snapshots()) == (None, {}), moment
