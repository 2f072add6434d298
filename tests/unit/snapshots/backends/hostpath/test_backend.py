"""What directories of one machine have of their own, beyond the contract of all backends."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.unit.snapshots.backends.hostpath.trees import described
from ullage.errors import Impossible, NotNow
from ullage.snapshots.backends.base import Backend, Creation, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend, HostPathSettings, file_copy, tree_copy
from ullage.snapshots.backends.hostpath.store import DirectoryStore

MI = 1024 * 1024
COPY_DATA = file_copy.copy_data


class World:
    """A volume with a file, and a backend for it."""

    def __init__(self, top: Path) -> None:
        self.volumes, self.snapshots = top / "volumes", top / "snapshots"
        self.volume = self.volumes / "db"
        self.volume.mkdir(parents=True)
        self.snapshots.mkdir()
        (self.volume / "file").write_bytes(b"content")
        self.settings = HostPathSettings(
            volumes=(self.volumes,), snapshots=self.snapshots, restored=self.volumes, node="here", single_node=True
        )
        self.backend = HostPathBackend(self.settings)
        self.creation = Creation(name="s-1", volume=VolumeHandle(handle=str(self.volume), node="here"))

    def restoration(self, name: str = "pvc-1", *, size: int = 100 * MI) -> Restoration:
        return Restoration(name=name, snapshot=str(self.snapshots / "s-1"), size=size)

    def left(self) -> list[str]:
        """What is in the roots beside the volume, and in the directories that we keep there."""
        found = [path for root in (self.snapshots, self.volumes) for path in root.iterdir() if path != self.volume]
        kept = [path for path in found if path.name in (".locks", ".restored")]
        return sorted(path.name for path in [*(set(found) - set(kept)), *(below for path in kept for below in path.iterdir())])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_it_is_a_backend(world: World) -> None:
    backend: Backend = world.backend
    assert backend.driver == "ullage.io/hostpath"


async def test_a_snapshot_lies_where_its_handle_says(world: World) -> None:
    (world.volume / "sparse").touch()
    os.truncate(world.volume / "sparse", 100 * MI)
    os.link(world.volume / "file", world.volume / "again")
    shot = await world.backend.create(world.creation)
    assert shot.handle == str(world.snapshots / "s-1")
    assert shot.ready
    assert described(world.snapshots / "s-1" / "data") == described(world.volume)
    manifest = json.loads((world.snapshots / "s-1" / "manifest.json").read_text())
    assert datetime.fromisoformat(manifest.pop("cut")) == shot.cut
    assert manifest.pop("allocated") == shot.restore_size == await world.backend.size(shot.handle)
    assert shot.restore_size
    assert shot.restore_size < MI, "holes and second names take nothing"
    assert manifest == {
        "format": 1,
        "name": "s-1",
        "volume": str(world.volume),
        "node": "here",
        "entries": 3,
        "apparent": 100 * MI + 7,
        "skipped": 0,
        "skippedPaths": [],
    }
    assert (world.snapshots / "s-1").stat().st_mode & 0o777 == 0o700, "whatever the volume's own mode: others stay out"


@pytest.mark.parametrize("node", ["", "here"])
async def test_volumes_of_this_node_are_copied(world: World, node: str) -> None:
    volume = replace(world.creation.volume, node=node)
    assert await world.backend.create(replace(world.creation, volume=volume))
    assert await world.backend.estimate(volume)


async def test_volumes_without_a_node_are_refused_unless_a_setting_says_that_they_are_here(world: World) -> None:
    careful = HostPathBackend(replace(world.settings, single_node=False))
    volume = replace(world.creation.volume, node="")
    with pytest.raises(Impossible) as refused:
        await careful.create(replace(world.creation, volume=volume))
    assert (refused.value.reason, str(refused.value)) == (
        "NodeUnknown",
        f"volume {world.volume} has no node affinity, so nothing tells on which node its files are; give its PersistentVolume "
        "one, or have an administrator start the controller with --hostpath-single-node",
    )
    assert await careful.estimate(volume) is None
    assert await careful.create(world.creation)


async def test_volumes_of_other_nodes_are_refused(world: World) -> None:
    volume = replace(world.creation.volume, node="there")
    with pytest.raises(Impossible) as refused:
        await world.backend.create(replace(world.creation, volume=volume))
    assert str(refused.value) == (
        f"volume {world.volume} is on node there, this controller runs on here: "
        "only a controller on the volume's own node can copy its files"
    )
    assert await world.backend.estimate(volume) is None
    assert world.left() == []


async def test_a_slash_at_the_end_names_the_same_volume(world: World) -> None:
    shot = await world.backend.create(world.creation)
    volume = VolumeHandle(handle=f"{world.volume}/")
    assert await world.backend.create(replace(world.creation, volume=volume)) == shot
    assert [one async for one in world.backend.list(volume.handle)] == [shot]


async def test_a_volume_that_is_a_link_out_of_its_root_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (world.volumes / "link").symlink_to(tmp_path / "secret")
    for path in (world.volumes / "link", world.volumes / "link" / "x", tmp_path / "secret", world.volumes, world.snapshots):
        with pytest.raises(Impossible):
            await world.backend.create(Creation(name="s-1", volume=VolumeHandle(handle=str(path))))
    assert world.left() == ["link"]


async def test_a_directory_swapped_for_a_link_during_the_copy_leads_nowhere(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "b").write_bytes(b"of somebody else")
    (world.volume / "d").mkdir()
    for name in "ab":
        (world.volume / "d" / name).write_bytes(b"mine")

    def swap(source: int, target: int, **options: object) -> None:
        COPY_DATA(source, target, **options)  # type: ignore[arg-type]  # handed on as it came
        if (world.volume / "d").is_dir() and not (world.volume / "d").is_symlink():
            (world.volume / "d").rename(world.volume / "moved")
            (world.volume / "d").symlink_to(tmp_path / "secret")

    monkeypatch.setattr(file_copy, "copy_data", swap)
    await world.backend.create(world.creation)
    copy = world.snapshots / "s-1" / "data"
    assert {path.read_bytes() for path in copy.rglob("*") if path.is_file()} == {b"mine", b"content"}
    assert (copy / "d").readlink() == tmp_path / "secret"


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        pytest.param(errno.ENOSPC, NotNow, r"no space left in .*/snapshots: .+ free, .+Ki needed", id="a full disk"),
        pytest.param(errno.EDQUOT, NotNow, r"the quota is used up in .*/snapshots: .+ free, .+Ki needed", id="a quota used up"),
        pytest.param(errno.EIO, NotNow, r"file: Input/output error$", id="a broken disk"),
        pytest.param(errno.EACCES, Impossible, r"file: Permission denied; reading it and writing to .* must be", id="no right"),
        pytest.param(errno.EROFS, Impossible, r"file: Read-only file system; reading it and writing", id="a disk to read only"),
    ],
)
async def test_a_copy_that_fails_says_why_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], message: str
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    shot = await world.backend.create(replace(world.creation, name="s-0"))
    with monkeypatch.context() as patched:
        patched.setattr(file_copy, "copy_data", fail)
        with pytest.raises(error, match=rf"^snapshot of {world.volume}: {message}"):
            await world.backend.create(world.creation)
        restoration = replace(world.restoration(), snapshot=shot.handle)
        with pytest.raises(error, match=r"^volume pvc-1: "):
            await world.backend.restore(restoration)
    assert world.left() == ["s-0"]
    assert await world.backend.create(world.creation)
    assert await world.backend.restore(restoration)


async def test_a_tree_that_never_holds_still_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_copy, "_PAUSE", 0.001)

    def write_after(source: int, target: int, **options: object) -> None:
        COPY_DATA(source, target, **options)  # type: ignore[arg-type]  # handed on as it came
        (world.volume / "file").write_bytes(os.urandom(5))

    monkeypatch.setattr(file_copy, "copy_data", write_after)
    with pytest.raises(NotNow, match=rf"^snapshot of {world.volume}: kept changing while it was copied, 5 times: file; "):
        await world.backend.create(world.creation)
    assert world.left() == []


async def test_a_cancelled_copy_has_stopped_and_can_be_gone_on_with_and_the_loop_ran_all_the_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(source: int, target: int, **options: object) -> None:
        begun.set()
        assert go_on.wait(20)
        COPY_DATA(source, target, **options)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(file_copy, "copy_data", slow)
    task = asyncio.create_task(world.backend.create(world.creation))
    await asyncio.to_thread(begun.wait, 20)
    assert await world.backend.find(str(world.snapshots / "s-1")) is None, "others are served meanwhile"
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done(), "it waits for its thread"
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.left() == [".notes-s-1", ".staging-s-1"]
    await world.backend.undo(world.creation)
    assert world.left() == []


async def test_a_snapshot_is_not_deleted_while_it_is_restored(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shot = await world.backend.create(world.creation)
    begun, go_on = threading.Event(), threading.Event()

    def slow(source: int, target: int, **options: object) -> None:
        begun.set()
        assert go_on.wait(20)
        COPY_DATA(source, target, **options)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(file_copy, "copy_data", slow)
    restoring = asyncio.create_task(world.backend.restore(world.restoration()))
    await asyncio.to_thread(begun.wait, 20)
    deleting = asyncio.create_task(world.backend.delete(shot.handle))
    await asyncio.wait([deleting], timeout=0.2)
    assert not deleting.done()
    go_on.set()
    restored = await restoring
    await deleting
    assert described(Path(restored.handle)) == described(world.volume)
    assert await world.backend.find(shot.handle) is None


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda path: None, id="nothing"),
        pytest.param(lambda path: (path / "manifest.json").write_text('{"format": 1, "na'), id="half a manifest"),
        pytest.param(lambda path: (path / "manifest.json").write_text("{}"), id="an empty manifest"),
        pytest.param(
            lambda path: (path / "manifest.json").write_text((path.parent / "s-1" / "manifest.json").read_text()),
            id="the manifest of another snapshot",
        ),
        pytest.param(lambda path: (path / "manifest.json").symlink_to("../s-1/manifest.json"), id="a link to a manifest"),
    ],
)
async def test_a_directory_without_a_valid_manifest_is_no_snapshot(world: World, leave: Callable[[Path], object]) -> None:
    shot = await world.backend.create(world.creation)
    torn = world.snapshots / "s-2"
    (torn / "data").mkdir(parents=True)
    leave(torn)
    assert await world.backend.find(str(torn)) is None
    assert [one async for one in world.backend.list()] == [shot]
    with pytest.raises(Impossible, match=r"there is no snapshot|is there, without a valid"):
        await world.backend.create(replace(world.creation, name="s-2"))
    await world.backend.delete(str(torn))
    assert world.left() == ["s-1"]


async def test_undo_leaves_the_snapshot_of_another_volume(world: World) -> None:
    shot = await world.backend.create(world.creation)
    (world.volumes / "other").mkdir()
    await world.backend.undo(Creation(name="s-1", volume=VolumeHandle(handle=str(world.volumes / "other"))))
    assert await world.backend.find(shot.handle) == shot


async def test_what_is_no_directory_is_left_alone(world: World) -> None:
    (world.snapshots / "s-2").symlink_to(world.volume)
    (world.volumes / "pvc-2").symlink_to(world.volume)
    for call in (world.backend.find, world.backend.delete):
        with pytest.raises(Impossible, match="/s-2: is not a directory, and so not ours"):
            await call(str(world.snapshots / "s-2"))
    with pytest.raises(Impossible, match="/pvc-2: is not a directory, and so not ours"):
        await world.backend.discard(str(world.volumes / "pvc-2"))
    assert world.left() == ["pvc-2", "s-2"]
    assert [one async for one in world.backend.list()] == []


@pytest.mark.parametrize("call", ["create", "undo", "delete"])
async def test_leftovers_of_a_killed_call_are_removed_by_the_next_one(world: World, call: str) -> None:
    for name in (".staging-s-1/data/x", ".deleting-s-1/data/x"):
        (world.snapshots / name).mkdir(parents=True)
    if call == "create":
        await world.backend.create(world.creation)
    elif call == "undo":
        await world.backend.undo(world.creation)
    else:
        await world.backend.delete(str(world.snapshots / "s-1"))
    assert world.left() == (["s-1"] if call == "create" else [])


async def test_a_volume_is_not_restored_where_its_pod_will_not_run(world: World) -> None:
    await world.backend.create(world.creation)
    with pytest.raises(Impossible, match="is scheduled to node there, and the snapshot's files are on here; have the pod run"):
        await world.backend.restore(replace(world.restoration(), node="there"))
    assert (await world.backend.restore(replace(world.restoration(), node="here"))).node == "here"


async def test_a_restored_volume_is_a_directory_of_this_node(world: World) -> None:
    await world.backend.create(world.creation)
    made = await world.backend.restore(world.restoration())
    path = str(world.volumes / "pvc-1")
    assert (made.handle, made.node, made.size) == (path, "here", 100 * MI)
    assert made.source == {"hostPath": {"path": path, "type": "Directory"}}
    assert described(Path(path)) == described(world.volume)


async def test_refused_restorations_name_the_sizes_or_the_mode(world: World) -> None:
    os.truncate(world.volume / "file", 0)
    (world.volume / "file").write_bytes(os.urandom(3 * MI))
    await world.backend.create(world.creation)
    with pytest.raises(Impossible, match=r"^volume pvc-1: 1Mi asked for, snapshot s-1 needs 3(\.0\d?)?Mi$"):
        await world.backend.restore(world.restoration(size=MI))
    with pytest.raises(Impossible, match=r"^volume pvc-1: volumeMode Block is not possible here, Filesystem is$"):
        await world.backend.restore(replace(world.restoration(), block=True))
    assert world.left() == ["s-1"]


async def test_a_directory_that_was_there_is_neither_filled_nor_discarded(world: World) -> None:
    await world.backend.create(world.creation)
    (world.volumes / "pvc-1").mkdir()
    (world.volumes / "pvc-1" / "precious").touch()
    with pytest.raises(Impossible, match="is there already, and was not made from a snapshot here"):
        await world.backend.restore(world.restoration())
    for path in (world.volumes / "pvc-1", world.volume):
        with pytest.raises(Impossible, match="was not made from a snapshot here, and is left alone"):
            await world.backend.discard(str(path))
    assert (world.volumes / "pvc-1" / "precious").exists()


async def test_a_directory_made_anew_under_a_restored_volumes_name_is_not_discarded(world: World) -> None:
    await world.backend.create(world.creation)
    await world.backend.restore(world.restoration())
    made = world.volumes / "pvc-1"
    made.rename(world.volumes / "moved")
    made.mkdir()
    with pytest.raises(Impossible, match="is left alone"):
        await world.backend.discard(str(made))
    assert made.exists()


async def test_a_sweep_clears_both_roots(world: World) -> None:
    (world.snapshots / ".deleting-s-9").mkdir()
    (world.volumes / ".staging-pvc-9").mkdir()
    await world.backend.sweep()
    assert world.left() == []


async def test_a_name_that_could_lead_elsewhere_is_refused(world: World) -> None:
    for name in ("../volumes/db", "..", ".staging-x", ""):
        with pytest.raises(Impossible, match="letters, digits and dashes are allowed"):
            await world.backend.create(replace(world.creation, name=name))
        with pytest.raises(Impossible, match="letters, digits and dashes are allowed"):
            await world.backend.undo(replace(world.creation, name=name))
        with pytest.raises(Impossible, match="letters, digits and dashes are allowed"):
            await world.backend.restore(replace(world.restoration(), name=name))


async def test_the_estimate_is_what_the_volume_takes(world: World) -> None:
    (world.volume / "more").write_bytes(os.urandom(2 * MI))
    os.sync()
    estimate = await world.backend.estimate(world.creation.volume)
    assert estimate
    assert 2 * MI <= estimate < 3 * MI
    with pytest.raises(Impossible, match="missing"):
        await world.backend.estimate(VolumeHandle(handle=str(world.volumes / "missing")))


async def test_a_crash_between_mark_and_rename_is_repaired(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark is there, the volume is not: it can be made, and it can be discarded."""

    def crash(_shelf: DirectoryStore, _root: int, _name: str) -> None:
        raise OSError(errno.EIO, "crash")

    await world.backend.create(world.creation)
    for finish in (world.backend.discard, None):
        with monkeypatch.context() as patched:
            patched.setattr(DirectoryStore, "publish", crash)
            with pytest.raises(NotNow):
                await world.backend.restore(world.restoration())
        assert (world.volumes / ".restored" / "pvc-1").exists()
        if finish:
            await finish(str(world.volumes / "pvc-1"))
            assert world.left() == ["s-1"]
    made = await world.backend.restore(world.restoration())
    await world.backend.discard(made.handle)
    assert world.left() == ["s-1"]
