"""A copy that lasts many times longer than a run of a worker may: real controllers, real files, and a slow disk."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.snapshots.memory_api import MemoryApi, Told
from ullage.kube.backoff import Backoff
from ullage.kube.builtin import core, storage
from ullage.kube.controller.controller import LONGEST_RUN, Controller
from ullage.kube.slices import Part, Wiring
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.backends.hostpath import HostPathBackend, HostPathSettings, file_copy
from ullage.snapshots.backends.hostpath.copies import PATIENCE
from ullage.snapshots.backends.hostpath.threads import Stop
from ullage.snapshots.controllers import record_sync
from ullage.snapshots.controllers.claim_release import ClaimReleaser
from ullage.snapshots.controllers.record_sync import RecordSyncer
from ullage.snapshots.controllers.snapshot_bind import Binder
from ullage.snapshots.lookup import kinds_of, snapshot_lookup, volume_lookup
from ullage.snapshots.metrics import Metrics
from ullage.snapshots.model import State
from ullage.snapshots.settings import HOSTPATH, Settings
from ullage.snapshots.volume_queue import VolumeQueues

MI = 1024 * 1024
SCALE = 1 / 3000  # of all times: the run limit, how long a caller waits, how often a worker looks
COPY_SECONDS = 60 * 60
PIECES = 64


class SlowDisk:
    """The fault switch: a file takes as long as it would on a disk that needs an hour for it."""

    def __init__(self) -> None:
        self.begun = 0
        self.waited = 0.0  # seconds, before scaling, in the last try

    def copy_data(self, source: int, target: int, *, size: int, stop: Stop) -> None:
        self.begun += 1
        self.waited = 0.0
        piece = size // PIECES
        for start in range(0, size, piece):
            stop.pause(COPY_SECONDS / PIECES * SCALE)
            self.waited += COPY_SECONDS / PIECES
            os.pwrite(target, os.pread(source, piece, start), start)
            stop.advance(piece)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    disk = SlowDisk()
    monkeypatch.setattr(file_copy, "copy_data", disk.copy_data)
    monkeypatch.setattr(record_sync, "PROGRESS_SECONDS", record_sync.PROGRESS_SECONDS * SCALE)
    defaults = Controller.__init__.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "longest_run", LONGEST_RUN * SCALE)
    return disk


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    volume = tmp_path / "volumes" / "db"
    volume.mkdir(parents=True)
    (tmp_path / "snapshots").mkdir()
    (volume / "file").write_bytes(os.urandom(MI))
    return volume


@pytest.fixture
def api(volume: Path) -> MemoryApi:
    api = MemoryApi()
    api.put(storage.STORAGE_CLASSES, {"metadata": {"name": "here"}, "provisioner": HOSTPATH})
    default = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
    api.put(GA.classes, {"metadata": {"name": "daily", "annotations": default}, "driver": HOSTPATH, "deletionPolicy": "Delete"})
    spec = {
        "claimRef": {"namespace": "team", "name": "db", "uid": "uid-db"},
        "hostPath": {"path": str(volume)},
        "storageClassName": "here",
    }
    api.put(core.PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": spec, "status": {"phase": "Bound"}})
    wanted = {"volumeName": "pv-1", "storageClassName": "here"}
    api.put(core.CLAIMS, {"metadata": {"name": "db", "namespace": "team"}, "spec": wanted, "status": {"phase": "Bound"}})
    api.put(
        GA.snapshots,
        {"metadata": {"name": "snap", "namespace": "team"}, "spec": {"source": {"persistentVolumeClaimName": "db"}}},
    )
    return api


def controllers(wiring: Wiring, backend: HostPathBackend) -> list[Controller[Any]]:
    settings, queues = Settings(drivers={HOSTPATH: "here"}, alone=True), VolumeQueues()
    lookup, volumes, told = snapshot_lookup(wiring, GA), volume_lookup(wiring), Told()
    lookup.enqueue_records(queues)
    binder = Binder(
        wiring.client,
        lookup,
        volumes,
        settings=settings,
        queues=queues,
        recorder=told,  # type: ignore[arg-type]
        metrics=Metrics(clock=wiring.clock),
    )
    backends: Any = {HOSTPATH: backend}
    backoff = Backoff(first=0.01, cap=0.05)
    worker = RecordSyncer(wiring.client, [lookup], backends, queues=queues, recorder=told, backoff=backoff)
    releaser = ClaimReleaser(wiring.client, [lookup], volumes, settings=settings)
    return [binder.controller(), worker.controller(), releaser.controller()]


async def test_a_copy_that_lasts_longer_than_any_run_shows_how_far_it_is_and_ends(
    api: MemoryApi, disk: SlowDisk, volume: Path, tmp_path: Path
) -> None:
    settings = HostPathSettings(
        volumes=(volume.parent,), snapshots=tmp_path / "snapshots", restored=volume.parent, node="here", single_node=True
    )
    backend = HostPathBackend(settings, patience=PATIENCE * SCALE)
    shown = list[str]()

    def state() -> State:
        return GA.read_snapshot(msgspec.convert(api.body(GA.snapshots, "snap", "team"), type=GA.snapshots.type)).state

    def over() -> bool:
        """Ready; or it is plain that it never will be."""
        now = state()
        if now.waiting is not None and now.waiting.reason == "Copying" and now.waiting.message not in shown:
            shown.append(now.waiting.message)
        return now.ready or disk.begun > 3

    wiring = Wiring(api)  # type: ignore[arg-type]
    made = wiring.made(Part(make=lambda wiring: controllers(wiring, backend), watches=kinds_of((GA,))))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(cache.run()) for cache in wiring.caches]
        tasks += [group.create_task(one.run()) for one in made]
        await api.until(over)
        for task in tasks:
            task.cancel()
    await backend.close()
    assert state().ready, f"the copy was begun {disk.begun} times and did not end"
    assert state().waiting is None
    assert disk.waited == COPY_SECONDS == 12 * LONGEST_RUN
    told = [message for message in shown if message.startswith("copied ")]
    assert len(told) > 3
    assert all(re.fullmatch(r"copied (0 bytes|\d+Ki|1Mi) of 1Mi", message) for message in told), told
    [copy] = (tmp_path / "snapshots").glob("snapshot-*/data/file")
    assert copy.read_bytes() == (volume / "file").read_bytes()
