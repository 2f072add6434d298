"""Restores in place of directories: real files, and a process that dies before and after every effect."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.policies.restores.scene import NS, PROTOTYPE_DIALECT, RestoreScene
from tests.unit.snapshots.memory_api import Crash, Json
from ullage.errors import NotNow
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PODS
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Forbidden
from ullage.kube.slices import Wiring
from ullage.policies.restores import pods
from ullage.policies.restores.api import SNAPSHOT_RESTORES
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.policies.restores.methods.swap import SwapMethod
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.backends.base import Creation, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend, HostPathSettings
from ullage.snapshots.backends.hostpath import in_place as swaps
from ullage.snapshots.backends.hostpath.in_place import HostPathInPlace
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
        assert not self._scene.api.bodies(PODS) or await self._inner.is_swapped(name, volume), "a pod uses the claim"
        await self._inner.swap(name, volume)
        self._scene.api.fuse.after()

    async def swap_back(self, name: str, volume: VolumeHandle) -> None:
        self._scene.api.fuse.before("swap back")
        assert not self._scene.api.bodies(PODS) or not await self._inner.is_swapped(name, volume), "a pod uses the claim"
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

    def remounted(self) -> None:
        """What was written down has a device number that the file system has no more: same inodes."""
        for journal in self.top.glob("volumes/.in-place/.journal-*"):
            found = json.loads(journal.read_bytes())
            found["old"][0], found["new"][0] = found["old"][0] + 7, found["new"][0] + 7
            journal.write_text(json.dumps(found))
        for mark in self.top.glob("volumes/**/.restored/*"):
            known = json.loads(mark.read_bytes())
            mark.write_text(json.dumps(known | {"device": known["device"] + 7}))

    @contextlib.contextmanager
    def unmounted(self) -> Iterator[None]:
        """Its file system is not there: what is seen of it is an empty directory."""
        root, away = self.top / "volumes", self.top / "away"
        root.rename(away)
        root.mkdir()
        yield
        root.rmdir()
        away.rename(root)

    def dies_after(self, what: str) -> None:
        """The process, once, as soon as this has been done."""
        fuse, after = self.api.fuse, self.api.fuse.after

        def dies() -> None:
            after()
            if fuse.log[-1] == what and not self.deaths:
                raise Crash

        fuse.after = dies  # type: ignore[method-assign]

    def methods(self, wiring: Wiring) -> Mapping[str, RestoreMethod]:
        real = HostPathInPlace(self.settings, clock=self.clock)
        volumes = wiring.cache(PERSISTENT_VOLUMES)
        self.swap = SwapMethod(FusedSwaps(self, real), wiring.client, volumes, clock=self.clock)
        return {"Swap": self.swap}

    def other_volume(self, path: str, *, phase: str = "Bound", node: str = "", **source: Any) -> None:
        """Of another namespace."""
        ref = {"namespace": "them", "name": "shared", "uid": "uid-shared"}
        spec: Json = {"claimRef": ref, **(source or {"hostPath": {"path": path}})}
        if node:
            terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        self.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": "pv-2"}, "spec": spec, "status": {"phase": phase}})

    def taken_away(self, name: str = "back") -> None:
        """By somebody who takes the finalizer off first."""
        self.api.edit(SNAPSHOT_RESTORES, name, NS, merge={"metadata": {"finalizers": None}})
        self.api.remove(SNAPSHOT_RESTORES, name, NS)


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


def _pod_waits(scene: HostPathScene) -> None:
    scene.pod(phase="Pending")


def _both(scene: HostPathScene) -> None:
    scene.remounted()
    _pod_waits(scene)


AFTER_A_KILL: Mapping[str, Callable[[HostPathScene], None]] = {
    "all is as it was": lambda scene: None,
    "a pod waits": _pod_waits,
    "the file system has another device number": HostPathScene.remounted,
    "a pod waits and the file system has another device number": _both,
}


@pytest.mark.parametrize("found", AFTER_A_KILL)
async def test_a_process_may_die_before_and_after_every_effect(found: str, tmp_path: Path) -> None:
    """What is left is the old data or the new at every moment. A restore that has failed has changed nothing, also when the
    next process comes too late to begin; one that has not is undone in the end, and nothing is kept."""
    moment = 0
    while True:
        moment += 1
        scene = await HostPathScene(tmp_path / str(moment)).taken()
        scene.api.fuse.blows_at = moment
        scene.at_death = partial(AFTER_A_KILL[found], scene)
        scene.ask()
        await scene.run(partial(_rests, scene))
        scene.clock.advance(601)
        await scene.run(lambda scene=scene: scene.phase() == "Complete" or scene.settled())  # type: ignore[misc]
        came = (scene.phase(), scene.read())
        assert came in (("Complete", NEW), ("Failed", OLD)), f"moment {moment}"
        scene.edit(undo=True)
        await scene.run(lambda scene=scene: scene.settled() or scene.said("Undoable")[1] == "ClaimInUse")  # type: ignore[misc]
        if scene.api.bodies(PODS):
            scene.api.remove(PODS, "db-0", NS)
        await scene.run(scene.settled)
        ended = "Undone" if came[0] == "Complete" else "Failed"
        assert (scene.read(), scene.kept(), scene.phase()) == (OLD, [], ended), f"moment {moment}"
        if not scene.deaths:
            break
    assert moment > 20


def _rests(scene: HostPathScene) -> bool:
    assert scene.read() in (OLD, NEW)
    return scene.phase() in ("Complete", "Failed") or scene.said()[1] == "ClaimInUse"


async def test_a_swap_that_was_done_is_complete_although_a_pod_has_come_and_the_time_to_begin_is_over(
    scene: HostPathScene,
) -> None:
    def late() -> None:
        _both(scene)
        scene.clock.advance(601)

    scene.at_death = late
    scene.dies_after("swap")
    scene.ask()
    await scene.run(lambda: scene.phase() in ("Complete", "Failed"))
    assert (scene.deaths, scene.phase(), scene.read()) == (1, "Complete", NEW)
    scene.api.remove(PODS, "db-0", NS)
    scene.edit(undo=True)
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read()) == ("Undone", OLD)


async def test_an_undo_after_a_reboot_gives_the_old_data_back(scene: HostPathScene) -> None:
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    scene.remounted()
    scene.edit(undo=True)
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.kept()) == ("Undone", OLD, [])


@pytest.mark.parametrize("deleted", [False, True], ids=["wanted", "being deleted"])
async def test_nothing_is_given_up_while_the_file_system_is_not_mounted(scene: HostPathScene, *, deleted: bool) -> None:
    """Nobody can tell whether the directories have changed places: what is kept may be all there is of the old data."""
    scene.dies_after("swap")
    scene.ask()
    async with contextlib.AsyncExitStack() as stack:

        def unmounted() -> None:
            _pod_waits(scene)
            stack.enter_context(scene.unmounted())

        scene.at_death = unmounted
        with pytest.raises(AssertionError, match="for ever"):
            await scene.run(lambda: scene.phase() in ("Complete", "Failed"), rounds=8)
        if deleted:
            scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
        scene.clock.advance(601)
        with pytest.raises(AssertionError, match="for ever"):
            await scene.run(lambda: scene.settled() or scene.phase() in ("Complete", "Failed"), rounds=8)
        assert (scene.phase(), scene.restore().status.progress) == (
            "Switching",
            f"{scene.top}/volumes/.in-place: No such file or directory; it has to be there, or its file system mounted",
        )
    assert (scene.read(), len(scene.kept())) == (NEW, 2)
    if not deleted:
        await scene.run(lambda: scene.phase() == "Complete")
        scene.api.remove(PODS, "db-0", NS)
        scene.edit(undo=True)
        await scene.run(scene.settled)
        assert (scene.phase(), scene.read()) == ("Undone", OLD)


async def test_an_error_after_the_swap_takes_nothing_back_and_gives_nothing_up(
    scene: HostPathScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directories have changed places, and then something is forbidden."""

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    scene.ask()
    with monkeypatch.context() as patch:
        patch.setattr(swaps, "sync", forbidden)
        with pytest.raises(AssertionError, match="for ever"):
            await scene.run(lambda: scene.phase() in ("Complete", "Failed"), rounds=8)
        assert (scene.phase(), scene.read()) == ("Switching", NEW)
        assert scene.restore().status.progress == f"{scene.volume}: Operation not permitted"
    await scene.run(lambda: scene.phase() == "Complete")
    scene.edit(undo=True)
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read()) == ("Undone", OLD)


async def test_a_directory_that_somebody_put_there_after_the_swap_does_not_cost_the_old_data(scene: HostPathScene) -> None:
    def replaced() -> None:
        scene.volume.rename(scene.top / "aside")
        scene.volume.mkdir()

    scene.dies_after("swap")
    scene.at_death = replaced
    scene.ask()
    with pytest.raises(AssertionError, match="for ever"):
        await scene.run(lambda: scene.phase() in ("Complete", "Failed"), rounds=8)
    kept = scene.top / "volumes" / ".in-place" / "restore-uid-back-1"
    assert (scene.phase(), {one.name: one.read_bytes() for one in kept.iterdir()}) == ("Switching", OLD)
    assert scene.restore().status.progress == (
        f"volume {scene.volume}: its directory, or the one that was to take its place ({kept}), was replaced by somebody else; "
        "neither is touched"
    )


async def test_what_the_api_refuses_while_it_switches_is_tried_again(
    scene: HostPathScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing about the claim, so it is no reason to give up."""
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    with monkeypatch.context() as patch:

        async def refused(*_: object) -> None:
            raise Forbidden("pods is forbidden", code=403)

        patch.setattr(pods, "users_of", refused)
        with pytest.raises(AssertionError, match="for ever"):
            await scene.run(lambda: scene.phase() != "Switching", rounds=8)
        assert (scene.restore().status.progress, scene.read()) == ("pods is forbidden", OLD)
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


async def test_a_claim_that_is_gone_while_it_switches_ends_it(scene: HostPathScene) -> None:
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    scene.api.remove(CLAIMS, "db", NS)
    await scene.run(scene.settled)
    assert (scene.phase(), scene.kept(), scene.said()[2]) == (
        "Failed",
        [],
        "claim db is gone, or another one has its name by now",
    )


async def test_a_volume_that_is_not_seen_for_a_moment_ends_nothing(scene: HostPathScene) -> None:
    scene.dies_after("swap")
    body = scene.api.body(PERSISTENT_VOLUMES, "pv-1") or {}
    scene.at_death = lambda: scene.api.remove(PERSISTENT_VOLUMES, "pv-1")
    scene.ask()
    with pytest.raises(AssertionError, match="for ever"):
        await scene.run(lambda: scene.phase() in ("Complete", "Failed"), rounds=8)
    said = "claim db has no PersistentVolume that is its own; it must have the one that it had"
    assert (scene.phase(), scene.restore().status.progress) == ("Switching", said)
    scene.api.put(PERSISTENT_VOLUMES, body)
    await scene.run(lambda: scene.phase() == "Complete")


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
    scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
    await scene.run(scene.gone)
    assert (scene.read(), scene.kept()) == (OLD if phase == "Preparing" else NEW, [])


async def test_what_is_written_in_the_status_leads_to_no_other_directory(scene: HostPathScene, tmp_path: Path) -> None:
    other = tmp_path / "volumes" / "other"
    other.mkdir()
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    forged = {"method": "Swap", "claimUID": "uid-other", "phase": "Undoing"}
    scene.api.edit(SNAPSHOT_RESTORES, "back", NS, merge={"status": forged})
    await scene.run(scene.settled)
    assert (scene.read(), list(other.iterdir())) == (NEW, [])


@pytest.mark.parametrize("forged", [{"snapshotUID": "uid-snap"}, {}], ids=["begun", "written by hand"])
async def test_a_status_of_a_snapshot_that_names_the_data_of_others_gives_nothing(scene: HostPathScene, forged: Json) -> None:
    theirs = {"spec": {"volumeSnapshotRef": {"namespace": "them", "name": "snap", "uid": "uid-theirs"}}}
    scene.api.edit(GA.records, "content-snap", merge=theirs)
    scene.ask()
    begun = {"phase": "Preparing", "method": "Swap", "claimUID": "uid-db", **forged}
    scene.api.edit(SNAPSHOT_RESTORES, "back", NS, merge={"status": begun})
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.kept()) == ("Failed", OLD, [])


async def test_another_snapshot_of_the_name_is_not_the_one_that_it_was_begun_with(scene: HostPathScene) -> None:
    scene.ask()
    begun = {"phase": "Preparing", "method": "Swap", "claimUID": "uid-db", "snapshotUID": "uid-before"}
    scene.api.edit(SNAPSHOT_RESTORES, "back", NS, merge={"status": begun})
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


# --- directories that others have too --------------------------------------------------------------------------------

SHARED = (
    "volume pv-1 of claim db: another PersistentVolume has the same directory, one that it is in, or one in it; whoever uses "
    "that would keep what is moved away, and lose what he writes"
)
OTHER_PATHS = [
    pytest.param("{volume}", id="the same"),
    pytest.param("{volume}/", id="the same, written otherwise"),
    pytest.param("{volume}/../db", id="the same, on a way round"),
    pytest.param("{volume}/below", id="one in it"),
    pytest.param("{top}/volumes", id="one that it is in"),
    pytest.param("/", id="all there is"),
]


@pytest.mark.parametrize("path", OTHER_PATHS)
async def test_a_directory_that_another_volume_has_too_does_not_change_places(scene: HostPathScene, path: str) -> None:
    """Their pod keeps the directory that is moved away, and writes there; it would go with the undo window."""
    scene.other_volume(path.format(volume=scene.volume, top=scene.top))
    mounted = os.open(scene.volume, os.O_RDONLY)
    try:
        scene.ask(undoWindow="0s")
        await scene.run(scene.settled)
        assert (scene.phase(), scene.read(), scene.kept()) == ("Failed", OLD, [])
        assert scene.said()[1:] == (
            "NotPossible",
            f"{SHARED}. Restore it to a new claim: ullage snapshot restore snap --to NEW-CLAIM",
        )
        assert sorted(os.listdir(mounted)) == sorted(OLD)
    finally:
        os.close(mounted)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"path": "{volume}-2"}, id="whose name only begins like it"),
        pytest.param({"path": "{top}/volumes/other"}, id="beside it"),
        pytest.param({"path": "{volume}", "phase": "Released"}, id="whose claim is gone"),
        pytest.param({"path": "", "csi": {"driver": "csi.example.com", "volumeHandle": "x"}}, id="that is no directory"),
    ],
)
async def test_another_volume_is_in_nobodys_way(scene: HostPathScene, other: Mapping[str, Any]) -> None:
    scene.other_volume(**{**other, "path": other["path"].format(volume=scene.volume, top=scene.top)})
    scene.ask()
    await scene.run(lambda: scene.phase() == "Complete")
    assert scene.read() == NEW


@pytest.mark.parametrize(("node", "phase"), [("here", "Failed"), ("there", "Complete")])
async def test_the_same_path_on_another_node_is_another_directory(scene: HostPathScene, node: str, phase: str) -> None:
    scene.other_volume(str(scene.volume), node="here")
    affinity = (scene.api.body(PERSISTENT_VOLUMES, "pv-2") or {})["spec"]["nodeAffinity"]
    scene.api.edit(PERSISTENT_VOLUMES, "pv-1", merge={"spec": {"nodeAffinity": affinity}})
    scene.other_volume(str(scene.volume), node=node)
    scene.ask()
    await scene.run(lambda: scene.phase() in ("Complete", "Failed"))
    assert scene.phase() == phase


async def test_a_volume_that_comes_in_between_is_seen_right_before_the_swap(
    scene: HostPathScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cache has it yet."""
    scene.ask()
    await scene.run(lambda: scene.phase() == "Switching")
    scene.other_volume(str(scene.volume))
    monkeypatch.setattr(Cache, "items", lambda self: [])
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read(), scene.kept(), "swap" in scene.api.fuse.log) == ("Failed", OLD, [], False)


async def test_a_volume_that_comes_after_a_swap_that_was_done_does_not_make_it_a_failure(scene: HostPathScene) -> None:
    scene.dies_after("swap")
    scene.at_death = lambda: scene.other_volume(str(scene.volume))
    scene.ask()
    await scene.run(lambda: scene.phase() in ("Complete", "Failed"))
    assert (scene.phase(), scene.read()) == ("Complete", NEW)


async def test_an_undo_waits_until_nobody_else_has_the_directory(scene: HostPathScene) -> None:
    scene.ask(undoWindow="1h")
    await scene.run(lambda: scene.phase() == "Complete")
    scene.other_volume(str(scene.volume))
    scene.edit(undo=True)
    await scene.run(lambda: scene.said("Undoable")[1] == "ClaimInUse")
    scene.clock.advance(7200)
    with pytest.raises(AssertionError, match="for ever"):
        await scene.run(scene.settled, rounds=5)
    assert (scene.phase(), scene.said("Undoable"), scene.read()) == ("Complete", ("True", "ClaimInUse", SHARED), NEW)
    scene.api.remove(PERSISTENT_VOLUMES, "pv-2")
    await scene.run(scene.settled)
    assert (scene.phase(), scene.read()) == ("Undone", OLD)


# --- taken away by force ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True], ids=["of other names", "of the same name"])
@pytest.mark.parametrize("phase", ["Switching", "Complete"])
async def test_restores_that_are_taken_away_one_after_the_other_heap_nothing_up(
    scene: HostPathScene, phase: str, *, again: bool
) -> None:
    async with scene.process() as (controller, wiring):
        for number in range(4):
            name = "loop" if again else f"loop-{number}"
            scene.clock.advance(1)
            scene.ask(name)
            await scene._rounds(controller, wiring, lambda name=name: scene.phase(name) == phase, [60])  # type: ignore[misc]
            scene.taken_away(name)
            if not again:
                await controller.reconcile(Key(NS, name))
            assert len([one for one in scene.kept() if not one.startswith(".")]) <= 1
        await controller.reconcile(Key(NS, name))
        assert scene.kept() == []


async def test_what_a_restore_left_that_this_process_never_saw_goes_when_its_end_is_seen(scene: HostPathScene) -> None:
    for _ in range(3):
        key = scene.ask("loop")
        await scene.run(lambda: scene.phase("loop") == "Complete")
        scene.taken_away("loop")
        async with scene.process() as (controller, _):
            await controller.reconcile(key)
        assert scene.kept() == []


async def test_names_that_no_restore_ever_had_are_not_looked_for_all_the_time(scene: HostPathScene) -> None:
    looks = 0

    async def kept() -> list[str]:
        nonlocal looks
        looks += 1
        return []

    async with scene.process() as (controller, _):
        scene.swap._backend.kept = kept  # type: ignore[method-assign]
        for number in range(10):
            await controller.reconcile(Key(NS, f"never-{number}"))
        assert looks == 1
        scene.clock.advance(31)
        await controller.reconcile(Key(NS, "never"))
    assert looks == 2


async def test_a_sweep_takes_what_is_left_of_others_although_one_cannot_be_removed(scene: HostPathScene) -> None:
    area = scene.top / "volumes" / ".in-place"
    for name in ("restore-a", "restore-b", "restore-c"):
        (area / name).mkdir(parents=True)
    (area / ".journal-restore-b").write_text("{")
    async with scene.process():
        with pytest.raises(NotNow, match="journal-restore-b: cannot be read"):
            await scene.swap.sweep()
    assert sorted(scene.kept()) == [".journal-restore-b", "restore-b"]
