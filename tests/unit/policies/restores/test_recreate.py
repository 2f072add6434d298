"""Restores in place where the claim is made again, in a cluster that binds and reclaims; the process dies at every effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.policies.restores.scene import NS, PROTOTYPE_DIALECT, RestoreScene
from tests.unit.snapshots.memory_api import Json
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PODS
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.policies.restores import slice as restore_slice
from ullage.policies.restores.api import SNAPSHOT_RESTORES
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.policies.restores.slice import RestoreOptions
from ullage.quantity import Quantity
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.model import READ_BY, Dialect

OLD, NEW = "old", "as it was"
PROTECTION = "kubernetes.io/pvc-protection"
BIND = "pv.kubernetes.io/bind-completed"


class CsiScene(RestoreScene):
    """What a cluster and a driver's provisioner do, as far as claims and volumes go."""

    def __init__(self, dialect: Dialect[Any, Any] = GA) -> None:
        super().__init__()
        self.dialect = dialect
        self.data = {"vol-0": OLD}  # by handle
        self.claim({"csi": {"driver": self.driver, "volumeHandle": "vol-0"}}, handle="vol-0")
        self.api.edit(CLAIMS, "db", NS, merge={"metadata": {"finalizers": [PROTECTION], "annotations": {BIND: "yes"}}})
        self.snapshot(snapshot_handle="shot-1")
        self.fills = True
        self.serves = True

    def prototype_source(self, handle: str) -> Json:
        return {"csiVolumeSnapshotSource": {"driver": self.driver, "snapshotHandle": handle}}

    def methods(self, wiring: Wiring) -> Mapping[str, RestoreMethod]:
        made = restore_slice._methods(wiring, RestoreOptions())
        return {"Recreate": made["Recreate"]} if self.serves else {}

    def read(self) -> str:
        """What a pod would find; nothing while the claim has no volume."""
        claim = self.api.body(CLAIMS, "db", NS)
        if claim is None or claim.get("status", {}).get("phase") != "Bound":
            return ""
        volume = self.api.body(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
        assert volume is not None
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        return self.data[volume["spec"]["csi"]["volumeHandle"]]

    # --- everybody else ---

    def others(self) -> None:
        for claim in self.api.bodies(CLAIMS):
            self._keep_claim(claim["metadata"], claim["spec"], claim)
        for volume in self.api.bodies(PERSISTENT_VOLUMES):
            self._keep_volume(volume["metadata"]["name"], volume["spec"])

    def _keep_claim(self, meta: Json, spec: Json, claim: Json) -> None:
        name = meta["name"]
        if meta.get("deletionTimestamp"):
            used = any(one["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == name for one in self.api.bodies(PODS))
            if not used:
                self.api.edit(CLAIMS, name, NS, merge={"metadata": {"finalizers": None}})
        elif claim.get("status", {}).get("phase") != "Bound":
            self._bind(meta, spec)

    def _bind(self, meta: Json, spec: Json) -> None:
        for volume in self.api.bodies(PERSISTENT_VOLUMES):
            ref, name = volume["spec"].get("claimRef") or {}, volume["metadata"]["name"]
            names = (ref.get("namespace"), ref.get("name")) == (NS, meta["name"]) and ref.get("uid") in (None, meta["uid"])
            if names and spec.get("volumeName") in (None, name) and self._is_large_enough(spec, volume["spec"]):
                self.api.edit(PERSISTENT_VOLUMES, name, merge={"spec": {"claimRef": {"uid": meta["uid"]}}})
                marks = {"annotations": {BIND: "yes"}, "finalizers": [PROTECTION]}
                bound = {"metadata": marks, "spec": {"volumeName": name}, "status": {"phase": "Bound"}}
                self.api.edit(CLAIMS, meta["name"], NS, merge=bound)
                return
        if spec.get("dataSourceRef") and not spec.get("volumeName") and self.fills:
            self._provision(meta, spec)

    def _is_large_enough(self, claim: Json, volume: Json) -> bool:
        asked, has = claim["resources"]["requests"]["storage"], volume["capacity"]["storage"]
        return Quantity.parse(asked) <= Quantity.parse(has)

    def _provision(self, meta: Json, spec: Json) -> None:
        name, handle = f"pvc-{meta['uid']}", f"vol-{meta['uid']}"
        self.data[handle] = NEW
        ref = {"namespace": NS, "name": meta["name"], "uid": meta["uid"]}
        body = {
            "claimRef": ref,
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": self.driver, "volumeHandle": handle},
        }
        self.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": body})

    def _keep_volume(self, name: str, spec: Json) -> None:
        ref = spec.get("claimRef") or {}
        claim = self.api.body(CLAIMS, ref.get("name", ""), NS)
        released = ref.get("uid") and (claim is None or claim["metadata"]["uid"] != ref["uid"])
        if released and spec["persistentVolumeReclaimPolicy"] == "Delete":
            del self.data[spec["csi"]["volumeHandle"]]
            self.api.remove(PERSISTENT_VOLUMES, name)

    def left(self) -> tuple[int, int, list[Json]]:
        """Claims, volumes, and what is still written on volumes."""
        volumes = self.api.bodies(PERSISTENT_VOLUMES)
        notes = [one["metadata"].get("annotations") or {} for one in volumes]
        return len(self.api.bodies(CLAIMS)), len(self.data), [one for one in notes if one]

    def is_tidy(self) -> bool:
        return self.settled() and self.left()[:2] == (1, 1)


class LonghornsOwn(CsiScene):
    driver = "driver.longhorn.io"

    def snapshot(self, name: str = "snap", *, snapshot_handle: str, claim: str = "db", **status: Any) -> None:
        super().snapshot(name, snapshot_handle="snap://vol-0/shot-1", claim=claim, **status)


def policies(scene: CsiScene) -> dict[str, str]:
    return {
        one["spec"]["csi"]["volumeHandle"]: one["spec"]["persistentVolumeReclaimPolicy"]
        for one in scene.api.bodies(PERSISTENT_VOLUMES)
    }


@pytest.mark.parametrize("dialect", [GA, PROTOTYPE_DIALECT], ids=["ga", "prototype"])
async def test_the_claim_is_made_again_as_it_was_and_the_old_volume_goes_after_a_day(dialect: Dialect[Any, Any]) -> None:
    scene = CsiScene(dialect)
    scene.api.edit(CLAIMS, "db", NS, merge={"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "blockOwnerDeletion": True}]}})  # fmt: skip
    before = scene.api.body(CLAIMS, "db", NS)
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    claim = scene.api.body(CLAIMS, "db", NS)
    assert before is not None
    assert claim is not None
    assert scene.read() == NEW
    assert claim["metadata"]["uid"] != before["metadata"]["uid"]
    assert claim["metadata"]["labels"] == {"app": "db"}
    assert claim["metadata"]["annotations"]["note"] == "kept"
    assert [one["name"] for one in claim["metadata"]["ownerReferences"]] == ["db"]
    same = {"storageClassName", "accessModes", "resources"}
    assert {key: claim["spec"][key] for key in same} == {key: before["spec"][key] for key in same}
    (new,) = set(scene.data) - {"vol-0"}
    assert policies(scene) == {"vol-0": "Retain", new: "Delete"}
    assert scene.restore().status.claim_uid == claim["metadata"]["uid"]
    scene.clock.advance(24 * 3600)
    await scene.run(scene.is_tidy)
    assert (scene.read(), scene.left(), policies(scene)) == (NEW, (1, 1, []), {new: "Delete"})


async def test_it_is_undone_and_the_new_volume_goes() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    scene.api.edit(CLAIMS, "db", NS, merge={"metadata": {"labels": {"since": "then"}}})
    scene.edit(undo=True)
    await scene.run(scene.is_tidy)
    claim = scene.api.body(CLAIMS, "db", NS)
    assert claim is not None
    assert (scene.read(), scene.phase(), scene.left()[2], policies(scene)) == (OLD, "Undone", [], {"vol-0": "Delete"})
    assert claim["metadata"]["labels"] == {"app": "db", "since": "then"}


async def test_a_claim_that_grew_meanwhile_has_its_old_volume_back_with_the_size_of_that() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    (new,) = (one["metadata"]["name"] for one in scene.api.bodies(PERSISTENT_VOLUMES) if one["metadata"]["name"] != "pv-1")
    scene.api.edit(CLAIMS, "db", NS, merge={"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    scene.api.edit(PERSISTENT_VOLUMES, new, merge={"spec": {"capacity": {"storage": "3Gi"}}})
    scene.edit(undo=True)
    await scene.run(scene.is_tidy)
    claim = scene.api.body(CLAIMS, "db", NS)
    assert claim is not None
    assert (scene.read(), scene.phase(), claim["spec"]["resources"]) == (OLD, "Undone", {"requests": {"storage": "1Gi"}})


async def test_a_volume_of_longhorn_itself_stays_as_long_as_its_snapshots_are_in_it() -> None:
    scene = LonghornsOwn()
    scene.ask(undoWindow="0s")
    await scene.run(scene.settled)
    assert (scene.read(), scene.phase(), scene.left()[2]) == (NEW, "Complete", [])
    (new,) = set(scene.data) - {"vol-0"}
    assert policies(scene) == {"vol-0": "Retain", new: "Delete"}
    scene.clock.advance(1)
    scene.ask("again", undoWindow="0s")  # of the volume that the claim has now there are no snapshots
    await scene.run(lambda: scene.settled("again") and new not in scene.data)
    assert (scene.read(), len(scene.data)) == (NEW, 2)


async def test_a_process_may_die_before_and_after_every_effect() -> None:
    moment = 0
    while True:
        moment += 1
        scene = CsiScene()
        scene.api.fuse.blows_at = moment
        scene.ask()

        def whole(scene: CsiScene = scene) -> bool:
            assert scene.read() in ("", OLD, NEW)
            assert {OLD, NEW} >= set(scene.data.values()) >= {OLD}
            return scene.phase() == "Complete"

        await scene.run(whole)
        assert (scene.read(), sorted(scene.data.values())) == (NEW, [NEW, OLD]), f"moment {moment}"
        scene.edit(undo=True)
        await scene.run(scene.is_tidy)
        assert (scene.read(), scene.left(), scene.phase()) == (OLD, (1, 1, []), "Undone"), f"moment {moment}"
        if not scene.deaths:
            break
    assert moment > 60


async def test_a_restore_that_is_not_undone_survives_deaths_too() -> None:
    moment = 0
    while True:
        moment += 1
        scene = CsiScene()
        scene.api.fuse.blows_at = moment
        scene.ask(undoWindow="0s")
        await scene.run(scene.is_tidy)
        assert (scene.read(), scene.left(), scene.phase()) == (NEW, (1, 1, []), "Complete"), f"moment {moment}"
        if not scene.deaths:
            break


async def test_a_claim_that_a_stateful_set_makes_meanwhile_gets_the_restored_volume() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    fuse, before = scene.api.fuse, scene.api.fuse.before

    def comes(what: str) -> None:
        before(what)
        if what == "create persistentvolumeclaims db":
            meta = {"name": "db", "namespace": NS, "uid": "uid-stranger", "finalizers": [PROTECTION]}
            scene.api.put(CLAIMS, {"metadata": meta, "spec": {"resources": {"requests": {"storage": "1Gi"}}}})

    fuse.before = comes  # type: ignore[method-assign]
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW
    assert scene.restore().status.claim_uid == "uid-stranger"


async def test_a_claim_with_another_volume_is_told_of_and_nothing_is_lost() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    fuse, before = scene.api.fuse, scene.api.fuse.before

    def comes(what: str) -> None:
        before(what)
        if what == "create persistentvolumeclaims db" and scene.api.body(CLAIMS, "db", NS) is None:
            meta = {"name": "db", "namespace": NS, "uid": "uid-stranger"}
            scene.api.put(CLAIMS, {"metadata": meta, "spec": {"volumeName": "theirs"}, "status": {"phase": "Bound"}})

    fuse.before = comes  # type: ignore[method-assign]
    await scene.run(lambda: "another claim db was made meanwhile" in scene.restore().status.progress)
    assert sorted(scene.data.values()) == [NEW, OLD]
    fuse.before = before  # type: ignore[method-assign]
    scene.api.remove(CLAIMS, "db", NS)
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


async def test_a_pod_that_starts_before_the_claim_goes_keeps_it_and_its_old_data() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    scene.pod()
    await scene.run(lambda: scene.phase() == "Preparing")
    assert (scene.read(), policies(scene)["vol-0"]) == (OLD, "Delete")
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


async def test_a_pod_that_starts_after_both_volumes_were_marked_is_waited_for() -> None:
    scene = CsiScene()
    scene.ask()
    fuse, after = scene.api.fuse, scene.api.fuse.after

    def comes() -> None:
        after()
        if fuse.log[-1].startswith("delete persistentvolumeclaims restore-"):
            scene.pod()

    fuse.after = comes  # type: ignore[method-assign]
    await scene.run(lambda: "is used by pod db-0" in scene.restore().status.progress)
    assert (scene.read(), scene.phase()) == (OLD, "Switching")
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


@pytest.mark.parametrize("phase", ["Preparing", "Switching", "Complete"])
async def test_a_restore_that_is_deleted_leaves_one_claim_with_one_volume(phase: str) -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == phase)
    scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
    await scene.run(lambda: scene.gone() and scene.left()[1] == 1)
    assert (scene.read(), scene.left()[2]) == (OLD if phase == "Preparing" else NEW, [])


async def test_who_takes_the_finalizer_off_leaves_no_volume_behind() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    scene.api.edit(
        SNAPSHOT_RESTORES, "back", NS, merge={"metadata": {"finalizers": None, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    )
    async with scene.process() as (controller, wiring):
        for cache in wiring.caches:
            await cache.reached(scene.api.version)
        await controller.reconcile(Key(NS, "back"))
    scene.others()
    assert (scene.read(), scene.left()) == (NEW, (1, 1, []))


async def test_a_claim_that_is_deleted_takes_what_was_kept_with_it() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    scene.api.remove(CLAIMS, "db", NS)
    await scene.run(lambda: scene.settled() and not scene.data)
    assert scene.api.bodies(PERSISTENT_VOLUMES) == []


async def test_no_other_volume_is_touched_whatever_the_status_says() -> None:
    """A user who may write statuses points a restore at the volume of another namespace."""
    scene = CsiScene()
    theirs = {"claimRef": {"namespace": "them", "name": "db", "uid": "uid-theirs"}, "persistentVolumeReclaimPolicy": "Retain"}
    theirs["csi"] = {"driver": scene.driver, "volumeHandle": "secret"}
    scene.data["secret"] = "theirs"
    scene.api.put(CLAIMS, {"metadata": {"name": "db", "namespace": "them", "uid": "uid-theirs"}, "spec": {}})
    scene.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": "pv-theirs"}, "spec": theirs})
    scene.ask()
    forged = {
        "phase": "Switching",
        "method": "Recreate",
        "claimUID": "uid-db",
        "earlierClaim": {"spec": {"volumeName": "pv-theirs"}},
    }
    scene.api.edit(SNAPSHOT_RESTORES, "back", NS, merge={"status": forged})
    await scene.run(scene.settled)
    assert scene.phase() == "Failed"
    volume = scene.api.body(PERSISTENT_VOLUMES, "pv-theirs")
    assert volume is not None
    assert (volume["spec"], volume["metadata"].get("annotations")) == (theirs, None)
    assert scene.read() == OLD


async def test_a_quota_that_is_full_fails_the_restore_and_nothing_changes() -> None:
    scene = CsiScene()

    def full(what: str) -> None:
        if what.startswith("create persistentvolumeclaims restore-"):
            raise Forbidden("exceeded quota: storage", code=403)

    scene.api.refuse = full
    scene.ask()
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.left()) == ("Failed", OLD, (1, 1, []))
    assert "was refused: exceeded quota: storage" in scene.said()[2]


async def test_while_the_new_volume_is_made_nothing_changes_and_it_can_be_called_off() -> None:
    scene = CsiScene()
    scene.fills = False
    scene.ask()
    await scene.run(lambda: "the new volume is made" in scene.restore().status.progress)
    assert scene.read() == OLD
    scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
    await scene.run(scene.gone)
    assert (scene.read(), scene.left()) == (OLD, (1, 1, []))


async def test_again_and_again_keeps_one_old_volume() -> None:
    scene = CsiScene()
    for number in range(4):
        scene.clock.advance(1)
        scene.ask(f"back-{number}")
        await scene.run(lambda number=number: scene.phase(f"back-{number}") == "Complete")  # type: ignore[misc]
        assert scene.read() == NEW
        assert len(scene.data) <= 3
    await scene.run(lambda: len(scene.data) == 2)


async def test_an_undo_that_was_asked_for_is_done_before_a_later_restore_begins() -> None:
    scene = CsiScene()
    scene.ask("first")
    await scene.run(lambda: scene.phase("first") == "Complete")
    scene.pod()
    scene.edit("first", undo=True)
    await scene.run(lambda: scene.said("Undoable", of="first")[1] == "ClaimInUse")
    scene.clock.advance(1)
    scene.ask("second")
    async with scene.process() as (controller, wiring):  # which is looked at first, once the pod is gone
        scene.api.remove(PODS, "db-0", NS)
        for cache in wiring.caches:
            await cache.reached(scene.api.version)
        await controller.reconcile(Key(NS, "second"))
    assert scene.said(of="second") == (
        "False", "OtherRestore", "SnapshotRestore first of the same claim is undone first: that was asked for"
    )  # fmt: skip
    await scene.run(lambda: scene.phase("first") == "Undone")
    assert scene.read() == OLD
    await scene.run(lambda: scene.phase("second") == "Complete")
    assert scene.read() == NEW


async def test_an_undo_that_is_asked_for_while_a_later_restore_waits_for_its_end_is_done() -> None:
    scene = CsiScene()
    scene.ask("first")
    await scene.run(lambda: scene.phase("first") == "Complete")
    scene.clock.advance(1)
    scene.ask("second")
    async with scene.process() as (controller, wiring):
        for cache in wiring.caches:
            await cache.reached(scene.api.version)
        await controller.reconcile(Key(NS, "second"))
    assert scene.said(of="second")[1] == "EarlierUndoEnds"
    scene.edit("first", undo=True)
    await scene.run(lambda: scene.phase("first") in ("Undone", "Complete") and scene.settled("first"))
    assert scene.phase("first") == "Undone"


async def test_an_undo_that_is_called_off_keeps_no_later_restore_waiting() -> None:
    scene = CsiScene()
    scene.ask("first")
    await scene.run(lambda: scene.phase("first") == "Complete")
    scene.pod()
    scene.edit("first", undo=True)
    await scene.run(lambda: scene.said("Undoable", of="first")[1] == "ClaimInUse")
    scene.clock.advance(1)
    scene.ask("second")
    scene.api.remove(SNAPSHOT_RESTORES, "first", NS)
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(lambda: scene.phase("second") == "Complete")
    assert (scene.read(), scene.gone("first")) == (NEW, True)


def deleted_once(scene: CsiScene, volume: str, *, after: str) -> None:
    """An administrator deletes a volume that no claim has, right after something was done."""
    fuse, done = scene.api.fuse, scene.api.fuse.after

    def comes() -> None:
        done()
        if fuse.log[-1] == after and scene.api.body(PERSISTENT_VOLUMES, volume) is not None:
            scene.others()  # the claim that was to be deleted is gone by then
            scene.api.remove(PERSISTENT_VOLUMES, volume)

    fuse.after = comes  # type: ignore[method-assign]


async def test_an_undo_whose_old_volume_was_deleted_is_refused_and_holds_nothing_up() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    scene.api.remove(PERSISTENT_VOLUMES, "pv-1")  # Released, with the policy Retain: an administrator tidies up
    del scene.data["vol-0"]
    scene.edit(undo=True)
    await scene.run(lambda: scene.said("Undoable")[1] == "UndoFailed")
    assert scene.said("Undoable")[2] == (
        "the volume with what the claim had before is gone: somebody has deleted it. The claim keeps what it has"
    )
    assert (scene.phase(), scene.read()) == ("Complete", NEW)
    scene.clock.advance(1)
    scene.ask("second")
    await scene.run(lambda: scene.phase("second") == "Complete")
    scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
    await scene.run(scene.gone)
    assert scene.read() == NEW


async def test_an_undo_whose_old_volume_is_deleted_once_the_claim_is_gone_gives_the_restored_data_back() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    deleted_once(scene, "pv-1", after="delete persistentvolumeclaims db")
    scene.edit(undo=True)
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.left()[2]) == ("Complete", NEW, [])
    assert policies(scene) == {next(one for one in scene.data if one != "vol-0"): "Delete"}


async def test_a_restore_whose_new_volume_is_deleted_once_the_claim_is_gone_gives_the_old_data_back() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    (new,) = (one["metadata"]["name"] for one in scene.api.bodies(PERSISTENT_VOLUMES) if one["metadata"]["name"] != "pv-1")
    deleted_once(scene, new, after="delete persistentvolumeclaims db")
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), policies(scene)) == ("Failed", OLD, {"vol-0": "Delete"})
    assert scene.said() == (
        "False",
        "NotPossible",
        "the claim that the new volume was made for was deleted by somebody else, and the volume with it",
    )


async def test_a_restore_whose_old_volume_is_deleted_once_the_claim_is_gone_goes_on() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    deleted_once(scene, "pv-1", after="delete persistentvolumeclaims db")
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


@pytest.mark.parametrize("phase", ["Preparing", "Switching", "Complete", "Undoing"])
async def test_a_restore_of_a_kind_that_is_not_carried_out_here_any_more_can_be_deleted(phase: str) -> None:
    scene = CsiScene()
    scene.ask()
    if phase == "Undoing":
        await scene.run(lambda: scene.phase() == "Complete")
        scene.edit(undo=True)
    await scene.run(lambda: scene.phase() == phase)
    scene.serves = False
    scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
    await scene.run(scene.gone)


async def test_a_restore_of_a_kind_that_is_not_carried_out_here_any_more_says_what_to_do() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    scene.serves = False
    await scene.run(lambda: "not carried out" in scene.restore().status.progress)
    assert scene.restore().status.progress == (
        "restores by Recreate are not carried out here any more: set the storage up again that they are for, or delete the "
        "restore, which leaves what it kept where it is"
    )


@pytest.mark.parametrize("dialect", [GA, PROTOTYPE_DIALECT], ids=["ga", "prototype"])
async def test_a_snapshot_that_is_made_again_under_its_name_is_another_one_and_the_restore_fails(
    dialect: Dialect[Any, Any],
) -> None:
    """Its claim is another one, or none is known: whoever fills a claim goes by the name alone."""
    scene = CsiScene(dialect)
    scene.fills = False
    scene.ask()
    await scene.run(lambda: len(scene.api.bodies(CLAIMS)) == 2)
    scene.api.remove(dialect.snapshots, "snap", NS)
    scene.snapshot(snapshot_handle="theirs", claim="other")
    scene.api.edit(dialect.snapshots, "snap", NS, merge={"metadata": {"uid": "uid-another"}})
    scene.fills = True
    await scene.run(lambda: scene.settled() and len(scene.data) == 1)
    assert (scene.phase(), scene.read(), scene.left()) == ("Failed", OLD, (1, 1, []))
    assert scene.said() == (
        "False", "NotPossible",
        "VolumeSnapshot team/snap is gone or being deleted, or another one has its name by now; the claim is as it was",
    )  # fmt: skip


async def test_a_snapshot_that_is_made_again_while_the_new_volume_is_filled_fails_the_restore() -> None:
    """It was still there when the look began, and the new volume was there when it was looked for."""
    scene = CsiScene()
    scene.fills = False
    scene.ask()
    await scene.run(lambda: len(scene.api.bodies(CLAIMS)) == 2)
    (temporary,) = (one["metadata"]["name"] for one in scene.api.bodies(CLAIMS) if one["metadata"]["name"] != "db")
    find = scene.api.find

    async def late(kind: Kind[Any], name: str, namespace: str = "") -> Any:
        if name == temporary and not scene.fills:
            scene.api.edit(GA.snapshots, "snap", NS, merge={"metadata": {"uid": "uid-another"}})
            scene.fills = True
            scene.others()
            scene.others()
        return await find(kind, name, namespace)

    scene.api.find = late  # type: ignore[method-assign]
    await scene.run(lambda: scene.phase() in ("Failed", "Complete"))
    assert (scene.phase(), scene.read()) == ("Failed", OLD)


@pytest.mark.parametrize(
    "filled", [False, True], ids=["before the new volume is there", "when it is there, and pods are waited for"]
)
async def test_a_snapshot_that_is_deleted_before_anything_changed_fails_the_restore(filled: bool) -> None:
    scene = CsiScene()
    scene.api.edit(GA.snapshots, "snap", NS, merge={"metadata": {"finalizers": ["held"]}})
    scene.fills = filled
    scene.ask()
    await scene.run(lambda: len(scene.api.bodies(CLAIMS)) == 2)
    scene.pod()
    await scene.run(lambda: scene.said()[1] == "ClaimInUse" if filled else True)
    scene.api.remove(GA.snapshots, "snap", NS)
    await scene.run(lambda: scene.settled() and len(scene.data) == 1)
    assert (scene.phase(), scene.read(), scene.left()) == ("Failed", OLD, (1, 1, []))


NAMESPACE_GOES = {"causes": [{"field": "metadata.namespace", "reason": "NamespaceTerminating", "message": "it goes"}]}


@pytest.mark.parametrize("phase", ["Switching", "Undoing"])
async def test_a_namespace_that_is_deleted_is_not_held_up_and_leaves_no_volume(phase: str) -> None:
    """Its claims go by other hands, and none can be made in it any more."""
    scene = CsiScene()
    scene.ask()
    if phase == "Undoing":
        await scene.run(lambda: scene.phase() == "Complete")
        scene.edit(undo=True)
    await scene.run(lambda: scene.phase() == phase)

    def goes(what: str) -> None:
        if what.startswith("create "):
            raise Forbidden("unable to create new content in namespace team", code=403, details=NAMESPACE_GOES)

    scene.api.refuse = goes
    scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
    await scene.run(lambda: scene.gone() and not scene.data)
    assert (scene.api.bodies(CLAIMS), scene.api.bodies(PERSISTENT_VOLUMES)) == ([], [])


async def test_a_restore_whose_new_claim_is_deleted_by_others_before_anything_changed_has_failed() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    (name,) = (one["metadata"]["name"] for one in scene.api.bodies(CLAIMS) if one["metadata"]["name"] != "db")
    scene.api.edit(CLAIMS, name, NS, merge={"metadata": {"finalizers": None}})
    scene.api.remove(CLAIMS, name, NS)
    await scene.run(lambda: scene.settled() and len(scene.data) == 1)
    assert (scene.phase(), scene.read(), scene.left(), policies(scene)) == ("Failed", OLD, (1, 1, []), {"vol-0": "Delete"})
    assert "was deleted by somebody else" in scene.said()[2]


async def test_a_stranger_under_the_name_of_the_new_volumes_claim_loses_nothing_once_the_claim_is_gone() -> None:
    scene = CsiScene()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    (name,) = (one["metadata"]["name"] for one in scene.api.bodies(CLAIMS) if one["metadata"]["name"] != "db")
    fuse, after = scene.api.fuse, scene.api.fuse.after

    def comes() -> None:
        after()
        if fuse.log[-1] == "delete persistentvolumeclaims db":
            meta = {"name": name, "namespace": NS, "uid": "uid-stranger"}
            scene.api.put(CLAIMS, {"metadata": meta, "spec": {}, "status": {"phase": "Bound"}})

    fuse.after = comes  # type: ignore[method-assign]
    await scene.run(lambda: scene.phase() in ("Complete", "Failed"))
    assert (scene.phase(), scene.read(), sorted(scene.data.values())) == ("Complete", NEW, [NEW, OLD])


async def test_a_snapshot_says_that_it_is_read_until_the_restore_is_done_and_no_longer() -> None:
    scene = CsiScene()
    scene.pod()
    scene.ask()

    def read_by() -> str:
        body = scene.api.body(scene.dialect.snapshots, "snap", NS)
        assert body is not None
        return str((body["metadata"].get("annotations") or {}).get(READ_BY, ""))

    await scene.run(lambda: scene.said()[1] == "ClaimInUse")
    assert read_by() == f"back/{scene.restore().metadata.uid}"
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(lambda: scene.phase() == "Switching")
    assert read_by() == f"back/{scene.restore().metadata.uid}"
    await scene.run(lambda: scene.phase() == "Complete" and not read_by())
    scene.api.edit(scene.dialect.snapshots, "snap", NS, merge={"metadata": {"annotations": {READ_BY: "gone/uid-gone"}}})
    async with scene.process() as (controller, wiring):
        for cache in wiring.caches:
            await cache.reached(scene.api.version)
        await controller.reconcile(Key(NS, "gone"))
    assert read_by() == ""
