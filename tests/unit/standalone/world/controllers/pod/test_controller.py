"""Only a claim's own directory is written to, whatever its volume says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.standalone.world.builders import OTHER_UID, UID, claim, container, pod, volume
from tests.unit.standalone.world.fake_api import FakeApi, Told
from ullage.clock import SystemClock
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PODS, HostPathVolumeSource
from ullage.kube.cache.indexer import Key
from ullage.standalone.world.controllers.pod.controller import PodController
from ullage.standalone.world.controllers.pod.rules import (
    Outcome,
)
from ullage.standalone.world.controllers.pod.runs import Runs
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.lookup import StorageLookup


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        pytest.param({"claimed_by": UID, "path": "{root}/pvc-x"}, Outcome(), id="a volume of ours"),
        pytest.param(
            {"claimed_by": OTHER_UID, "path": "{root}/pvc-x"},
            Outcome(1, "claim data: volume v belongs to another claim"),
            id="a volume that another claim has",
        ),
        pytest.param(
            {"claimed_by": UID, "path": "/etc"},
            Outcome(1, "claim data: hostPath /etc: not a volume below {root}"),
            id="the machine",
        ),
        pytest.param(
            {"claimed_by": UID, "path": ""}, Outcome(1, "claim data: its volume is no directory of this machine"), id="a disk"
        ),
    ],
)
async def test_only_the_claims_own_directory_is_copied_to(tmp_path: Path, found: dict[str, str], outcome: Outcome) -> None:
    (tmp_path / "pvc-x").mkdir()
    (tmp_path / "pvc-x" / "file").touch()
    api, woken, runs = FakeApi(), asyncio.Event(), Runs()
    api.put(CLAIMS, claim(bound=True, volume_name="v", phase="Bound"))
    source = HostPathVolumeSource(path=found["path"].format(root=tmp_path)) if found["path"] else None
    api.put(PERSISTENT_VOLUMES, volume("v", claimed_by=found["claimed_by"], phase="Bound", host_path=source))
    doing = pod(container("cp", "/data/file", "/data/copy", data="/data"), phase="Running", of_job=True, claims=("data",))
    api.put(PODS, doing)
    controller = PodController(
        api.client,
        StorageLookup(api.wiring()),
        directories=Directories(tmp_path),
        recorder=Told().recorder,
        runs=runs,
        clock=SystemClock(),
    )
    controller.wake = lambda key: woken.set()
    async with runs, asyncio.timeout(20):
        await controller.reconcile(Key("default", "app"))
        await woken.wait()
        ended = runs.outcomes(doing)
    assert ended == {"main": Outcome(outcome.exit_code, outcome.message.format(root=tmp_path))}
