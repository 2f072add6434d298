"""Restores: a new VM, or the old one brought back; all of it or nothing, through every kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.vms.builders import NAMESPACE, body, claim_volume, data_volume, machine_body
from tests.unit.vms.controllers.cluster import DRIVER, Cluster
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.errors import Forbidden
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.restores import VM_RESTORES

Json = dict[str, Any]
OLD = ("a", "b")
NEW = ("copy-disk-a-back-uid", "copy-disk-b-back-uid")
IN_PLACE = ("db-disk-a-back-uid", "db-disk-b-back-uid")


async def backed_up(**content: Any) -> Cluster:
    """A VM that is stopped, and a backup of it that is ready."""
    made = Cluster()
    made.machine(*OLD, run_strategy="Halted", status={"printableStatus": "Stopped"}, **content)
    made.backup()
    await made.live()
    assert made.status()["readyToUse"] is True
    made.told.events.clear()
    return made


def machine(cluster: Cluster, name: str) -> Json:
    found = cluster.api.body(VIRTUAL_MACHINES, name, NAMESPACE)
    assert found is not None, name
    return found


def claims_in(found: Json) -> tuple[str, ...]:
    volumes = found["spec"]["template"]["spec"]["volumes"]
    return tuple(one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one)


def claims(cluster: Cluster) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in cluster.api.bodies(CLAIMS)}


def said(cluster: Cluster, type: str = "Ready", name: str = "back") -> tuple[str, str, str]:
    return cluster.condition(type, name, VM_RESTORES)


# --- a new VM --------------------------------------------------------------------------------------------------------


async def test_a_new_vm_has_claims_of_its_own_and_is_stopped_if_its_restore_says_so() -> None:
    cluster = await backed_up()
    cluster.restore(start=False)
    await cluster.live()
    made = machine(cluster, "copy")
    assert (claims_in(made), made["spec"]["runStrategy"]) == (NEW, "Halted")
    assert claims_in(machine(cluster, "db")) == OLD, "the old one is as it was"
    claim = claims(cluster)[NEW[0]]
    assert claim["spec"]["dataSource"] == {
        "apiGroup": "snapshot.storage.k8s.io",
        "kind": "VolumeSnapshot",
        "name": "one-volume-a",
    }
    assert "volumeName" not in claim["spec"]
    assert "ownerReferences" not in claim["metadata"], "it is the VM's now"
    status = cluster.status("back", VM_RESTORES)
    assert (status["complete"], status["progress"], status["targetUID"]) == (True, 100, "uid-copy")
    assert said(cluster) == ("True", "Restored", "VM team/copy has 2 volumes of backup one; it is stopped")
    assert cluster.told.reasons == ["RestoreStarted", "RestoreComplete"]
    found = cluster.api.body(VM_RESTORES, "back", NAMESPACE)
    assert found is not None
    assert not found["metadata"].get("finalizers")


@pytest.mark.parametrize(
    ("had", "runs"),
    [
        pytest.param({"runStrategy": "RerunOnFailure"}, {"runStrategy": "RerunOnFailure"}, id="with the strategy that it had"),
        pytest.param({"runStrategy": "Halted"}, {"runStrategy": "Always"}, id="one that was halted runs always"),
        pytest.param({"runStrategy": "Manual"}, {"runStrategy": "Always"}, id="one that was started by hand, too"),
        pytest.param({"running": False}, {"running": True}, id="in the old field"),
    ],
)
async def test_a_new_vm_is_started_if_somebody_asks_for_it(had: Json, runs: Json) -> None:
    cluster = Cluster()
    found = machine_body(claim_volume("a"))
    found["spec"] = {**{key: value for key, value in found["spec"].items() if key != "runStrategy"}, **had}
    cluster.claim("a")
    cluster.api.put(VIRTUAL_MACHINES, found)
    cluster.backup()
    await cluster.live()
    cluster.restore(start=True)
    await cluster.live()
    spec = machine(cluster, "copy")["spec"]
    assert {key: spec[key] for key in ("running", "runStrategy") if key in spec} == runs
    assert said(cluster) == ("True", "Restored", "VM team/copy has 1 volume of backup one; it is started")


@pytest.mark.parametrize(
    ("had", "runs"),
    [
        pytest.param({"runStrategy": "Always"}, {"runStrategy": "Always"}, id="one that always ran"),
        pytest.param({"runStrategy": "RerunOnFailure"}, {"runStrategy": "RerunOnFailure"}, id="as Harvester makes them"),
        pytest.param({"running": True}, {"running": True}, id="in the old field"),
        pytest.param({"runStrategy": "Halted"}, {"runStrategy": "Halted"}, id="one that was halted stays so"),
        pytest.param({"runStrategy": "Manual"}, {"runStrategy": "Halted"}, id="one that is started by hand is not started"),
        pytest.param({"running": False}, {"running": False}, id="halted in the old field"),
    ],
)
async def test_a_new_vm_runs_where_the_one_of_the_backup_did_without_any_field_of_ours(had: Json, runs: Json) -> None:
    cluster = Cluster()
    found = machine_body(claim_volume("a"))
    found["spec"] = {**{key: value for key, value in found["spec"].items() if key != "runStrategy"}, **had}
    cluster.claim("a")
    cluster.api.put(VIRTUAL_MACHINES, found)
    cluster.backup()
    await cluster.live()
    cluster.restore()
    await cluster.live()
    spec = machine(cluster, "copy")["spec"]
    assert {key: spec[key] for key in ("running", "runStrategy") if key in spec} == runs


NO_FIT = "VM available resources are insufficient: cpu: asked 1, used 2, pending 0, share 2. Next: stop one"


async def test_where_its_room_is_gone_the_new_vm_is_halted_and_says_why() -> None:
    cluster = await backed_up()
    cluster.no_vm_runs = f'admission webhook "vm-charge.webhook.ullage.io" denied the request: {NO_FIT}'
    cluster.restore(start=True)
    await cluster.live()
    made = machine(cluster, "copy")
    assert made["spec"]["runStrategy"] == "Halted"
    assert made["metadata"]["annotations"]["harvesterhci.io/insufficient-resource-quota"] == NO_FIT
    assert cluster.told.reasons == ["RestoreStarted", "InsufficientResourceQuota", "RestoreComplete"]
    assert said(cluster)[2] == f"VM team/copy has 2 volumes of backup one; it was to run, and is stopped: {NO_FIT}"


async def test_one_that_is_refused_for_another_reason_fails_as_ever() -> None:
    cluster = await backed_up()
    cluster.no_vm_runs = "no VM may run on Mondays"
    cluster.restore(start=True)
    await cluster.live()
    assert said(cluster, "Failed")[:2] == ("True", "TargetRefused")
    assert cluster.api.body(VIRTUAL_MACHINES, "copy", NAMESPACE) is None


async def test_nothing_is_made_of_the_vm_before_every_claim_is_filled() -> None:
    cluster = await backed_up()
    cluster.hold_claims = True
    cluster.restore()
    await cluster.live()
    assert cluster.api.body(VIRTUAL_MACHINES, "copy", NAMESPACE) is None
    assert said(cluster)[1:] == (
        "Restoring",
        f"0 of 2 claims are filled; waits for {NEW[0]}, {NEW[1]}, whose Events tell more",
    )
    owners = claims(cluster)[NEW[0]]["metadata"]["ownerReferences"]
    assert [(one["kind"], one["uid"]) for one in owners] == [("VirtualMachineRestore", "back-uid")]


async def test_claims_that_wait_for_a_consumer_are_not_waited_for() -> None:
    cluster = await backed_up()
    cluster.api.put(
        STORAGE_CLASSES,
        {"metadata": {"name": "fast"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
    )
    cluster.hold_claims = True
    cluster.restore()
    await cluster.live()
    assert claims_in(machine(cluster, "copy")) == NEW


@pytest.mark.parametrize("keep", [pytest.param(True, id="kept"), pytest.param(False, id="left out")])
async def test_mac_addresses(keep: bool) -> None:
    interfaces = [{"name": "default", "macAddress": "02:00:00:00:00:01", "bridge": {}}]
    cluster = Cluster()
    found = machine_body(claim_volume("a"), run_strategy="Halted")
    found["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"] = interfaces
    cluster.claim("a")
    cluster.api.put(VIRTUAL_MACHINES, found)
    cluster.backup()
    await cluster.live()
    cluster.restore(keepMacAddress=keep)
    await cluster.live()
    made = machine(cluster, "copy")["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"]
    assert made == (interfaces if keep else [{"name": "default", "bridge": {}}])


async def test_data_volumes_become_claims_and_what_would_make_the_old_ones_again_goes() -> None:
    cluster = Cluster()
    cluster.claim("a")
    found = machine_body(data_volume("a"), {"name": "image", "containerDisk": {"image": "x"}}, run_strategy="Always")
    found["spec"]["dataVolumeTemplates"] = [{"metadata": {"name": "a"}, "spec": {}}]
    found["spec"]["template"]["metadata"] = {"labels": {"harvesterhci.io/vmName": "db", "app": "db"}}
    cluster.api.put(VIRTUAL_MACHINES, found)
    cluster.backup()
    await cluster.live()
    cluster.restore()
    await cluster.live()
    made = machine(cluster, "copy")["spec"]
    assert made["template"]["spec"]["volumes"] == [
        {"name": "disk-a", "persistentVolumeClaim": {"claimName": NEW[0]}},
        {"name": "image", "containerDisk": {"image": "x"}},
    ]
    assert "dataVolumeTemplates" not in made
    assert made["runStrategy"] == "Always"
    assert made["template"]["metadata"]["labels"] == {"harvesterhci.io/vmName": "copy", "app": "db"}


async def test_a_vm_and_claims_that_are_gone_come_back() -> None:
    cluster = await backed_up()
    cluster.api.remove(VIRTUAL_MACHINES, "db", NAMESPACE)
    for name in OLD:
        cluster.api.remove(CLAIMS, name, NAMESPACE)
    cluster.restore(target="db")
    await cluster.live()
    assert claims_in(machine(cluster, "db")) == IN_PLACE
    assert cluster.status("back", VM_RESTORES)["complete"] is True


async def test_a_claim_is_as_large_as_its_volume_had_become() -> None:
    cluster = Cluster()
    cluster.claim("a")
    cluster.api.edit(CLAIMS, "a", NAMESPACE, merge={"status": {"capacity": {"storage": "3Gi"}}})
    cluster.machine("a", run_strategy="Halted")
    cluster.backup()
    await cluster.live()
    cluster.restore()
    await cluster.live()
    assert claims(cluster)[NEW[0]]["spec"]["resources"] == {"requests": {"storage": "3Gi"}}


async def test_names_are_bounded() -> None:
    cluster = await backed_up()
    cluster.restore(target="x" * 60)
    await cluster.live()
    made = [one for one in claims(cluster) if one not in OLD]
    assert len(made) == 2
    assert max(map(len, made)) <= 63


# --- in place --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        pytest.param("delete", set(IN_PLACE), id="the old claims are deleted"),
        pytest.param("retain", {*OLD, *IN_PLACE}, id="the old claims are kept"),
    ],
)
async def test_in_place_the_vm_gets_the_volumes_and_the_spec_of_the_backup(policy: str, left: set[str]) -> None:
    cluster = await backed_up()
    cluster.api.edit(VIRTUAL_MACHINES, "db", NAMESPACE, merge={"spec": {"template": {"spec": {"hostname": "changed"}}}})
    cluster.restore(target="db", new=False, deletionPolicy=policy)
    await cluster.live()
    found = machine(cluster, "db")
    assert (claims_in(found), found["metadata"]["uid"]) == (IN_PLACE, "uid-db")
    assert "hostname" not in found["spec"]["template"]["spec"], "what came after the backup goes"
    assert set(claims(cluster)) == left
    assert tuple(cluster.status("back", VM_RESTORES).get("deletedVolumes", ())) == (OLD if policy == "delete" else ())


async def test_a_claim_that_another_vm_uses_is_not_deleted() -> None:
    cluster = await backed_up()
    cluster.machine("b", name="other")
    cluster.restore(target="db", new=False)
    await cluster.live()
    assert set(claims(cluster)) == {"b", *IN_PLACE}
    assert "ClaimsKept" in cluster.told.reasons


async def test_a_claim_whose_snapshots_are_inside_its_volume_is_not_deleted() -> None:
    cluster = await backed_up()
    cluster.within = frozenset({DRIVER})
    cluster.restore(target="db", new=False)
    await cluster.live()
    assert set(claims(cluster)) == {*OLD, *IN_PLACE}


async def test_a_claim_that_a_data_volume_would_make_again_is_not_deleted() -> None:
    cluster = await backed_up()
    owner = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "b", "uid": "dv", "controller": True}
    cluster.api.edit(CLAIMS, "b", NAMESPACE, merge={"metadata": {"ownerReferences": [owner]}})
    cluster.restore(target="db", new=False)
    await cluster.live()
    assert set(claims(cluster)) == {"b", *IN_PLACE}
    assert cluster.told.events[-2][1:] == (
        "ClaimsKept",
        "Claims that have snapshots inside, belong to a DataVolume, or are used by other VMs are kept: b.",
    )


async def test_a_vm_that_is_started_meanwhile_gets_its_volumes_when_it_is_stopped() -> None:
    cluster = await backed_up()
    cluster.hold_claims = True
    cluster.restore(target="db", new=False)
    await cluster.live()
    cluster.hold_claims = False
    cluster.api.put(INSTANCES, body(INSTANCES, "db", status={"phase": "Running"}))
    await cluster.live()
    assert claims_in(machine(cluster, "db")) == OLD
    assert said(cluster)[1:] == ("TargetRunning", "VM team/db was started; it gets the restored volumes when it is stopped")
    cluster.api.remove(INSTANCES, "db", NAMESPACE)
    await cluster.live()
    assert claims_in(machine(cluster, "db")) == IN_PLACE


# --- what cannot be --------------------------------------------------------------------------------------------------


async def test_what_the_webhook_would_have_refused_fails_and_leaves_nothing() -> None:
    cluster = await backed_up()
    cluster.restore(target="db")
    await cluster.live()
    assert said(cluster, "Failed")[1:] == (
        "NotPossible",
        "VM team/db exists already; name another, or restore it in place with newVM: false. "
        "Nothing was changed, and nothing is left; delete this restore, and create another",
    )
    assert set(claims(cluster)) == set(OLD)
    assert cluster.told.reasons == ["RestoreFailed"]


async def test_a_vm_of_the_name_that_comes_meanwhile_fails_the_restore_and_the_claims_go() -> None:
    cluster = await backed_up()
    cluster.hold_claims = True
    cluster.restore()
    await cluster.live()
    cluster.machine(name="copy")
    cluster.hold_claims = False
    await cluster.live()
    assert said(cluster, "Failed")[1] == "TargetExists"
    assert set(claims(cluster)) == set(OLD)
    assert claims_in(machine(cluster, "copy")) == ()


async def test_another_vm_under_the_name_is_left_alone() -> None:
    cluster = await backed_up()
    cluster.hold_claims = True
    cluster.restore(target="db", new=False)
    await cluster.live()
    cluster.machine("a", run_strategy="Halted", metadata={"uid": "another"})
    cluster.hold_claims = False
    await cluster.live()
    assert (said(cluster, "Failed")[1], claims_in(machine(cluster, "db"))) == ("TargetMissing", ("a",))
    assert set(claims(cluster)) == set(OLD)


async def test_a_claim_of_the_name_that_is_somebody_elses_fails_the_restore_and_stays() -> None:
    cluster = await backed_up()
    cluster.claim(NEW[1])
    cluster.restore()
    await cluster.live()
    assert said(cluster, "Failed")[1] == "ClaimNameTaken"
    assert set(claims(cluster)) == {*OLD, NEW[1]}


async def test_a_snapshot_that_is_gone_fails_the_restore() -> None:
    cluster = await backed_up()
    cluster.hold_claims = True
    cluster.restore()
    await cluster.live()
    cluster.api.remove(VOLUME_SNAPSHOTS, "one-volume-b", NAMESPACE)
    await cluster.live()
    assert said(cluster, "Failed")[1:2] == ("SnapshotMissing",)
    assert set(claims(cluster)) == set(OLD)


async def test_a_claim_that_a_quota_refuses_fails_the_restore_with_the_quotas_words() -> None:
    cluster = await backed_up()
    cluster.restore()

    def refuse(what: str) -> None:
        if what.endswith(f"persistentvolumeclaims {NEW[1]}"):
            raise Forbidden("exceeded quota: storage", code=403)

    cluster.api.refuse = refuse
    await cluster.live()
    assert said(cluster, "Failed")[2].startswith(f"volume disk-b: claim {NEW[1]}: exceeded quota: storage")
    assert set(claims(cluster)) == set(OLD)


async def test_of_two_restores_of_one_vm_the_older_goes_first() -> None:
    cluster = await backed_up()
    cluster.hold_claims = True
    cluster.restore("back", target="db", new=False, deletionPolicy="retain")
    cluster.restore("again", target="db", new=False, deletionPolicy="retain")
    cluster.api.edit(VM_RESTORES, "again", NAMESPACE, merge={"metadata": {"creationTimestamp": "2026-01-01T00:02:00Z"}})
    await cluster.live()
    assert said(cluster, name="again")[1:] == ("WaitingForRestore", "VirtualMachineRestore back restores VM team/db first")
    cluster.hold_claims = False
    await cluster.live()
    await cluster.live()
    assert claims_in(machine(cluster, "db")) == ("db-disk-a-again-ui", "db-disk-b-again-ui")


# --- deleted, and killed ---------------------------------------------------------------------------------------------


async def test_one_that_is_deleted_half_way_leaves_nothing() -> None:
    cluster = await backed_up()
    cluster.hold_claims = True
    cluster.restore()
    await cluster.live()
    assert set(claims(cluster)) == {*OLD, *NEW}
    cluster.api.remove(VM_RESTORES, "back", NAMESPACE)
    await cluster.live()
    assert (set(claims(cluster)), cluster.api.body(VM_RESTORES, "back", NAMESPACE)) == (set(OLD), None)


async def test_one_that_is_deleted_after_the_vm_has_its_claims_leaves_them_to_it() -> None:
    cluster = await backed_up()
    cluster.restore()
    moment = 1
    while not await _vm_made(moment):
        moment += 1
    assert await cluster.live(blows_at=moment)
    assert claims_in(machine(cluster, "copy")) == NEW
    cluster.api.remove(VM_RESTORES, "back", NAMESPACE)
    await cluster.live()
    assert {*OLD, *NEW} == set(claims(cluster))
    assert not any(one["metadata"].get("ownerReferences") for one in claims(cluster).values())


async def test_claims_that_came_later_or_that_somebody_has_taken_meanwhile_are_not_deleted() -> None:
    moment, cluster = 0, await backed_up()
    while claims_in(machine(cluster, "db")) == OLD:
        moment, cluster = moment + 1, await backed_up()
        cluster.restore(target="db", new=False)
        assert await cluster.live(blows_at=moment)
    assert set(claims(cluster)) == {*OLD, *IN_PLACE}, "killed right after the VM had its new ones"
    later = {"metadata": {"creationTimestamp": "2026-01-02T00:00:00Z"}}
    cluster.api.edit(CLAIMS, "a", NAMESPACE, merge=later)
    cluster.machine("b", name="other")
    await cluster.live()
    assert cluster.status("back", VM_RESTORES)["complete"] is True
    assert set(claims(cluster)) == {*OLD, *IN_PLACE}


async def _vm_made(moment: int) -> bool:
    cluster = await backed_up()
    cluster.restore()
    assert await cluster.live(blows_at=moment), "it was never made"
    return cluster.api.body(VIRTUAL_MACHINES, "copy", NAMESPACE) is not None


def anew(cluster: Cluster) -> None:
    cluster.restore()


def in_place(cluster: Cluster) -> None:
    cluster.restore(target="db", new=False)


@pytest.mark.parametrize(
    ("asked", "vm", "has", "left"),
    [
        pytest.param(anew, "copy", NEW, {*OLD, *NEW}, id="a new VM"),
        pytest.param(in_place, "db", IN_PLACE, set(IN_PLACE), id="in place"),
    ],
)
async def test_killed_at_any_moment_it_is_complete_all_the_same(
    asked: Callable[[Cluster], None], vm: str, has: tuple[str, ...], left: set[str]
) -> None:
    moment = 0
    while True:
        moment += 1
        cluster = await backed_up()
        asked(cluster)
        if not await cluster.live(blows_at=moment):
            break
        found = cluster.api.body(VIRTUAL_MACHINES, vm, NAMESPACE)
        assert found is None or claims_in(found) in (OLD, has), "never half of them"
        await cluster.live()
        assert cluster.status("back", VM_RESTORES)["complete"] is True, moment
        assert (claims_in(machine(cluster, vm)), set(claims(cluster))) == (has, left), moment
    assert moment > 10


async def test_killed_at_any_moment_a_failed_one_leaves_nothing() -> None:
    moment = 0
    while True:
        moment += 1
        cluster = await backed_up()
        cluster.claim(NEW[1])
        cluster.restore()
        if not await cluster.live(blows_at=moment):
            break
        await cluster.live()
        assert said(cluster, "Failed")[1] == "ClaimNameTaken", moment
        assert set(claims(cluster)) == {*OLD, NEW[1]}, moment
    assert moment > 5
