"""A StorageClass of a CSI driver that has snapshots asked for with what the last one of their volume took, and not with the
capacity. Class, limit and `ullage usage` say by how much a limit may be passed; what does not fit after its cut is taken away
again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.csi_driver.faults import Fault
from tests.csi_driver.running import NAME, RunningDriver, running_driver

from .apart import IS_BORROWED
from .engine_scene import MIB, EngineScene, eventually
from .snapshot_scene import GA, STARTED_BY, STARTERS, VOLUMES, csi_volume
from .space_scene import CREATED, FORBIDDEN, Json, Tenant, space_scene
from .test_snapshot_cli import environment

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
PLAIN, ASKING = "raw-devices", "raw-devices-by-the-last"
CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
ESTIMATE_BY: Final = "ullage.io/estimate-by"
CAPACITY, LIMIT = 10 * MIB, 4 * MIB


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with running_driver() as found:
        yield found


@pytest.fixture(scope="module", params=STARTERS, ids=STARTED_BY)
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, driver: RunningDriver
) -> Iterator[EngineScene]:
    with space_scene(tmp_path_factory.mktemp("space")) as made:
        made.base.starter = request.param(made.base)
        for name in (PLAIN, ASKING):
            made.base.storage_class(name, NAME)
        made.base.api.merge(f"{CLASSES}/{ASKING}", {"metadata": {"annotations": {ESTIMATE_BY: "last-snapshot"}}})
        made.base.snapshot_class(PLAIN, NAME)
        made.drivers = ("--driver", f"{NAME}={driver.endpoint}")
        made.kill("controller")
        yield made


class Disk:
    """A claim with a raw device of 10Mi."""

    def __init__(self, tenant: Tenant, driver: RunningDriver, storage_class: str) -> None:
        self.api, self.tenant = tenant.scene.base.api, tenant
        self.volume = f"{tenant.namespace}-disk"
        handle = csi_volume(driver, self.volume, size=CAPACITY, block=True)
        source = {"csi": {"driver": NAME, "volumeHandle": handle}, "volumeMode": "Block"}
        tenant.scene.base.bound_claim(
            tenant.namespace, "disk", source=source, storage_class=storage_class, size=str(CAPACITY), volumeMode="Block"
        )
        self._data = driver.data(handle)

    def write(self, amount: int) -> None:
        with self._data.open("r+b") as device:
            device.write(os.urandom(amount))

    def known(self) -> str:
        found: str = self.api.get(f"{VOLUMES}/{self.volume}").obj["metadata"].get("annotations", {}).get("ullage.io/used", "")
        return found

    def snapshot(self, name: str) -> Json:
        found: Json = self.api.get(f"{GA.snapshots(self.tenant.namespace)}/{name}").obj
        return found


def ready_message(tenant: Tenant) -> str:
    conditions = tenant.quota().get("status", {}).get("conditions", ())
    return next((str(one["message"]) for one in conditions if one["type"] == "Ready"), "")


def usage(scene: EngineScene, namespace: str) -> str:
    command = [sys.executable, "-m", "ullage", "usage", "-n", namespace]
    env = environment(Path(scene.base.plane.kubeconfig))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_last_snapshot_is_the_estimate_where_the_class_asks_for_it(scene: EngineScene, driver: RunningDriver) -> None:
    plain, asking = Tenant(scene), Tenant(scene)
    by_capacity, by_last = Disk(plain, driver, PLAIN), Disk(asking, driver, ASKING)
    for tenant, disk in ((plain, by_capacity), (asking, by_last)):
        disk.write(MIB)
        tenant.snapshot("one", "disk")
        tenant.limit(namespace=LIMIT)
        eventually("its blocks are booked", lambda tenant=tenant: tenant.usage() == MIB)  # type: ignore[misc]
    eventually("the size of the last one is known", lambda: f'"bytes":{MIB},' in by_last.known())
    told = scene.base.api.get("/apis/events.k8s.io/v1/events").obj["items"]
    notes = [one["note"] for one in told if one["regarding"]["name"] == ASKING]
    assert any(note.endswith("Estimated: the next may pass by up to 9Mi") for note in notes), notes

    assert by_capacity.known() == ""
    refused = plain.ask_snapshot("two", "disk")
    assert refused.code == FORBIDDEN
    assert "asked 10Mi" in refused.message

    # While its driver is away, what was admitted is an estimate, and everything says so.
    driver.set(Fault("CreateSnapshot", "UNAVAILABLE"))
    try:
        assert asking.ask_snapshot("two", "disk").code == CREATED
        marks = by_last.snapshot("two")["metadata"]["annotations"]
        assert (marks["ullage.io/estimated-by"], marks["ullage.io/takes-at-most"]) == ("last-snapshot", str(CAPACITY))
        eventually("the limit says so", lambda: "estimated: may pass by up to 9Mi" in ready_message(asking))
        assert f"{asking.namespace}: estimated: may pass by up to 9Mi" in usage(scene, asking.namespace)
    finally:
        driver.set()
    eventually("it is ready", lambda: GA.ready(by_last.snapshot("two")), seconds=90)
    eventually("it is known what it takes", lambda: "estimated" not in ready_message(asking))
    assert asking.usage() == 2 * MIB
    assert "may pass" not in usage(scene, asking.namespace)


def test_what_turns_out_too_large_is_taken_away_and_a_class_that_asks_no_more_is_heard(
    scene: EngineScene, driver: RunningDriver
) -> None:
    tenant = Tenant(scene)
    disk = Disk(tenant, driver, ASKING)
    disk.write(MIB)
    tenant.snapshot("one", "disk")
    tenant.limit(namespace=LIMIT)
    eventually("the size of the last one is known", lambda: f'"bytes":{MIB},' in disk.known())
    there = len(driver.snapshots())
    disk.write(6 * MIB)
    assert tenant.ask_snapshot("two", "disk").code == CREATED, "1Mi is asked for"
    eventually("it fails", lambda: "SnapshotSpaceExceeded" in GA.error(disk.snapshot("two")))
    eventually("the driver has it no more", lambda: len(driver.snapshots()) == there)
    assert not GA.ready(disk.snapshot("two"))
    assert tenant.usage() <= LIMIT
    tenant.delete_snapshot("two")

    try:
        scene.base.api.merge(f"{CLASSES}/{ASKING}", {"metadata": {"annotations": {ESTIMATE_BY: None}}})
        eventually("nothing is known of the volume", lambda: disk.known() == "")
        assert "asked 10Mi" in tenant.ask_snapshot("three", "disk").message
    finally:
        scene.base.api.merge(f"{CLASSES}/{ASKING}", {"metadata": {"annotations": {ESTIMATE_BY: "last-snapshot"}}})
