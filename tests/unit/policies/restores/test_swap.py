"""Restores in place of directories: real files, and a process that dies before and after every effect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.policies.restores.scene import NS, PROTOTYPE_DIALECT, RestoreScene
from tests.unit.snapshots.memory_api import Json
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PODS
from ullage.kube.slices import Wiring
from ullage.policies.restores.api import RESTORES
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.policies.restores.methods.swap import SwapMethod
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.backends.base import Creation, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend, HostPathSettings
from ullage.snapshots.backends.hostpath.in_place.backend import HostPathInPlace
from ullage.snapshots.model import Dialect
from ullage.snapshots.settings import HOSTPATH

OLD, NEW = {"file": b"old", "later": b"more"}, {"file": b"as it was"}


class FusedSwaps:
    """The real thing, with a moment before and after each call that changes something at which the process may die."""

    def __init__(self, scene: HostPathScene, inner: HostPathInPlace) -> None:
        self._scene, self._inner = scene, inner

    async def prepare(self, restoration: Restoration, volume: VolumeHandle) -> None:
        self._scene.api.fuse.before("prepare")
        await self._inner.prepare(restoration, volume)
        self._scene.api.fuse.after()

    async def swap(self, name: str, volume: VolumeHandle) -> None:
        self._scene.api.fuse.before("swap")
        assert not self._scene.api.bodies(PODS), "a pod uses the claim"
        await self._inner.swap(name, volume)
        self._scene.api.fuse.after()

    async def swap_back(self, name: str, volume: VolumeHandle) -> None:
        self._scene.api.fuse.before("swap back")
        await self._inner.swap_back(name, volume)
        self._scene.api.fuse.after()

    async def is_swapped(self, name: str, volume: VolumeHandle) -> bool:
        return await self._inner.is_swapped(name, volume)

    async def discard(self, name: str) -> None:
        self._scene.api.fuse.before("discard")
        await self._inner.discard(name)
        self._scene.api.fuse.after()

    async def kept(self) -> list[str]:
        return await self._inner.kept()


class HostPathScene(RestoreScene):
    driver = HOSTPATH

    def __init__(self, top: Path, dialect: Dialect[Any, Any] = GA) -> None:
        super().__init__()
        self.dialect = dialect
        self.top, self.volume = top, top / "volumes" / "db"
        self.volume.mkdir(parents=True)
        (top / "snapshots").mkdir()
        self.settings = HostPathSettings(
            volumes=(top / "volumes",), snapshots=top / "snapshots", restored=top / "volumes", node="here", single_node=True
        )

    async def taken(self) -> HostPathScene:
        self.write(NEW)
        volume = VolumeHandle(handle=str(self.volume))
        shot = await HostPathBackend(self.settings).create(Creation(name="s-1", volume=volume))
        self.write(OLD)
        self.claim({"hostPath": {"path": str(self.volume)}}, handle=str(self.volume))
        self.snapshot(snapshot_handle=shot.handle)
        return self

    def write(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            (self.volume / name).write_bytes(content)

    def read(self) -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in self.volume.iterdir()}

    def kept(self) -> list[str]:
        area = self.top / "volumes" / ".in-place"
        return [one for one in os.listdir(area) if one not in (".locks", ".restored")] if area.exists() else []

    def methods(self, wiring: Wiring) -> Mapping[str, RestoreMethod]:
        swaps = HostPathInPlace(self.settings, clock=self.clock)
        return {"Swap": SwapMethod(FusedSwaps(self, swaps))}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nobody pulls the plug here


@pytest.fixture
async def scene(tmp_path: Path) -> HostPathScene:
    return await HostPathScene(tmp_path).taken()


@pytest.mark.parametrize("dialect", [GA, PROTOTYPE_DIALECT], ids=["ga", "prototype"])
async def test_a_claim_gets_its_data_back_and_what_it_had_goes_after_a_day(dialect: Dialect[Any, Any], tmp_path: Path) -> None:
    scene = await HostPathScene(tmp_path, dialect).taken()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    status = scene.restore().status
    assert (scene.read(), status.method, status.undo_until) == (NEW, "Swap", "2026-01-02T00:00:00Z")
    assert scene.said() == ("True", "Restored", "claim db has the data of snapshot snap")
    assert scene.said("Undoable")[:2] == ("True", "Kept")
    assert scene.kept()
    scene.clock.advance(24 * 3600)
    await scene.run(scene.settled)
    assert (scene.read(), scene.kept(), scene.phase()) == (NEW, [], "Complete")
    ended = "the undo window of 24h has ended: what the claim had is not kept"
    assert scene.said("Undoable") == ("False", "WindowEnded", ended)
    assert scene.told.reasons == ["RestoreStarted", "RestoreComplete", "UndoEnded"]


async def test_it_is_undone_and_the_copy_goes(scene: HostPathScene) -> None:
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    scene.write({"since": b"then"})
    scene.edit(undo=True)
    await scene.run(scene.settled)
    assert (scene.read(), scene.kept(), scene.phase()) == (OLD, [], "Undone")
    assert scene.said() == ("False", "Undone", "claim db has again what it had before")
    assert scene.said("Undoable") == ("False", "Undone", "claim db has again what it had before")
    assert scene.restore().status.undo_until == ""


async def test_a_process_may_die_before_and_after_every_effect(tmp_path: Path) -> None:
    """What is left is the old data or the new at every moment, and in the end it is restored, undone, and nothing is kept."""
    moment = 0
    while True:
        moment += 1
        scene = await HostPathScene(tmp_path / str(moment)).taken()
        scene.api.fuse.blows_at = moment
        scene.ask()

        def whole(scene: HostPathScene = scene) -> bool:
            assert scene.read() in (OLD, NEW)
            return scene.phase() == "Complete"

        await scene.run(whole)
        assert scene.read() == NEW
        scene.edit(undo=True)
        await scene.run(scene.settled)
        assert (scene.read(), scene.kept(), scene.phase()) == (OLD, [], "Undone"), f"moment {moment}"
        if not scene.deaths:
            break
    assert moment > 20


async def test_nothing_is_done_while_a_pod_uses_the_claim(scene: HostPathScene) -> None:
    scene.pod()
    scene.ask()
    await scene.run(lambda: scene.said()[1] == "ClaimInUse")
    assert scene.said()[2] == "claim db is used by pod db-0; scale it down: kubectl scale statefulset db -n team --replicas=0"
    assert (scene.phase(), scene.read(), scene.kept()) == ("Pending", OLD, [])
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


async def test_a_pod_that_never_goes_fails_the_restore(scene: HostPathScene) -> None:
    scene.pod(phase="Pending", owner="VirtualMachineInstance")
    scene.ask(startWithin="5m")
    await scene.run(lambda: scene.said()[1] == "ClaimInUse")
    scene.clock.advance(301)
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.kept()) == ("Failed", OLD, [])
    assert "stop the VM: virtctl stop db" in scene.said()[2]
    assert scene.said()[2].endswith("It did not begin within 5m")
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(scene.settled)
    assert scene.read() == OLD


@pytest.mark.parametrize("moment", ["prepare", "patch snapshotrestores.ullage.io back"])
async def test_a_pod_that_comes_in_between_is_seen_right_before_the_swap(scene: HostPathScene, moment: str) -> None:
    fuse, before = scene.api.fuse, scene.api.fuse.before

    def comes(what: str) -> None:
        before(what)
        if what == moment and fuse.log.count(moment) == (1 if moment == "prepare" else 3):
            scene.pod()

    fuse.before = comes  # type: ignore[method-assign]
    scene.ask()
    await scene.run(lambda: scene.said()[1] == "ClaimInUse")
    assert (scene.phase(), scene.read(), "swap" in fuse.log) == ("Preparing", OLD, False)
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


async def test_a_pod_that_starts_in_the_very_moment_is_told_of_and_keeps_what_it_may_use(scene: HostPathScene) -> None:
    fuse, after = scene.api.fuse, scene.api.fuse.after

    def comes() -> None:
        after()
        if fuse.log[-1] == "swap":
            scene.pod()

    fuse.after = comes  # type: ignore[method-assign]
    scene.ask(undoWindow="1m")
    await scene.run(lambda: scene.phase() == "Complete")
    assert "PodStartedMeanwhile" in scene.told.reasons
    scene.clock.advance(120)
    with pytest.raises(AssertionError, match="for ever"):
        await scene.run(scene.settled, rounds=5)
    assert scene.kept()
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(scene.settled)
    assert scene.kept() == []


async def test_an_undo_waits_for_pods_and_keeps_the_old_data_beyond_its_time(scene: HostPathScene) -> None:
    scene.ask(undoWindow="1h")
    await scene.run(lambda: scene.phase() == "Complete")
    scene.pod()
    scene.edit(undo=True)
    await scene.run(lambda: scene.said("Undoable")[1] == "ClaimInUse")
    scene.clock.advance(7200)
    with pytest.raises(AssertionError, match="for ever"):
        await scene.run(scene.settled, rounds=5)
    assert scene.read() == NEW
    scene.api.remove(PODS, "db-0", NS)
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read()) == ("Undone", OLD)


async def test_a_window_of_nothing_gives_the_space_back_at_once(scene: HostPathScene) -> None:
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    scene.edit(undoWindow="0s")
    await scene.run(scene.settled)
    scene.edit(undo=True)
    await scene.run(scene.settled)
    assert (scene.read(), scene.kept(), scene.phase()) == (NEW, [], "Complete")


async def test_one_restore_at_a_time_and_a_later_one_ends_the_time_of_the_first(scene: HostPathScene) -> None:
    scene.ask("first")
    scene.clock.advance(1)
    scene.ask("second")
    await scene.run(lambda: scene.phase("second") == "Complete")
    assert (scene.phase("first"), scene.restore("first").status.settled) == ("Complete", True)
    assert scene.said("Undoable", of="first")[:2] == ("False", "Superseded")
    assert len([one for one in scene.kept() if not one.startswith(".")]) == 1
    assert scene.read() == NEW


async def test_a_later_restore_that_cannot_be_ends_nothing(scene: HostPathScene) -> None:
    scene.ask("first")
    await scene.run(lambda: scene.phase("first") == "Complete")
    scene.ask("second", snapshot="nothing")
    await scene.run(lambda: scene.settled("second"))
    assert scene.said(of="second")[1] == "SnapshotNotFound"
    assert scene.said("Undoable", of="first")[0] == "True"


@pytest.mark.parametrize("phase", ["Preparing", "Complete"])
async def test_what_a_deleted_claim_had_is_not_kept(scene: HostPathScene, phase: str) -> None:
    scene.ask()
    await scene.run(lambda: scene.phase() == phase)
    scene.api.remove(CLAIMS, "db", NS)
    await scene.run(scene.settled)
    assert scene.kept() == []
    assert scene.phase() == ("Failed" if phase == "Preparing" else "Complete")


@pytest.mark.parametrize("phase", ["Preparing", "Switching", "Complete"])
async def test_a_restore_that_is_deleted_leaves_nothing(scene: HostPathScene, phase: str) -> None:
    scene.ask()
    await scene.run(lambda: scene.phase() == phase)
    scene.api.remove(RESTORES, "back", NS)
    await scene.run(scene.gone)
    assert (scene.read(), scene.kept()) == (OLD if phase == "Preparing" else NEW, [])


async def test_what_is_written_in_the_status_leads_to_no_other_directory(scene: HostPathScene, tmp_path: Path) -> None:
    other = tmp_path / "volumes" / "other"
    other.mkdir()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    forged = {"method": "Swap", "claimUID": "uid-other", "phase": "Undoing"}
    scene.api.edit(RESTORES, "back", NS, merge={"status": forged})
    await scene.run(scene.settled)
    assert (scene.read(), list(other.iterdir())) == (NEW, [])


@pytest.mark.parametrize("forged", [{"snapshotUID": "uid-snap"}, {}], ids=["begun", "written by hand"])
async def test_a_status_of_a_snapshot_that_names_the_data_of_others_gives_nothing(scene: HostPathScene, forged: Json) -> None:
    theirs = {"spec": {"volumeSnapshotRef": {"namespace": "them", "name": "snap", "uid": "uid-theirs"}}}
    scene.api.edit(GA.records, "content-snap", merge=theirs)
    scene.ask()
    begun = {"phase": "Preparing", "method": "Swap", "claimUID": "uid-db", **forged}
    scene.api.edit(RESTORES, "back", NS, merge={"status": begun})
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.kept()) == ("Failed", OLD, [])


async def test_another_snapshot_of_the_name_is_not_the_one_that_it_was_begun_with(scene: HostPathScene) -> None:
    scene.ask()
    begun = {"phase": "Preparing", "method": "Swap", "claimUID": "uid-db", "snapshotUID": "uid-before"}
    scene.api.edit(RESTORES, "back", NS, merge={"status": begun})
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.kept()) == ("Failed", OLD, [])


async def test_a_claim_that_names_the_volume_of_another_is_refused(scene: HostPathScene) -> None:
    scene.api.edit(PERSISTENT_VOLUMES, "pv-1", merge={"spec": {"claimRef": {"namespace": "them", "uid": "theirs"}}})
    scene.ask()
    await scene.run(scene.settled)
    assert (scene.said()[1], scene.read()) == ("VolumeMisbound", OLD)


async def test_a_snapshot_in_the_making_is_waited_for(scene: HostPathScene) -> None:
    source = {"source": {"persistentVolumeClaimName": "db"}}
    scene.api.put(GA.snapshots, {"metadata": {"name": "being", "namespace": NS}, "spec": source})
    scene.ask()
    await scene.run(lambda: scene.said()[1] == "SnapshotBeingTaken")
    scene.api.remove(GA.snapshots, "being", NS)
    await scene.run(lambda: scene.phase() == "Complete")


async def test_a_snapshot_of_another_claim_is_refused(scene: HostPathScene) -> None:
    scene.snapshot("other", snapshot_handle="x", claim="them")
    scene.ask(snapshot="other")
    await scene.run(scene.settled)
    assert scene.said() == (
        "False",
        "OtherClaim",
        "VolumeSnapshot team/other is of claim them; only snapshots of claim db can be restored in place. "
        "To a new claim: ullage snapshot restore other --to NEW-CLAIM",
    )
