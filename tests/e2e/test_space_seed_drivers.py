"""Cases 2, 4 and 5 of the document on snapshot space for volumes that are not of engines: directories, and a CSI driver's raw
devices. As in `test_space_seed.py`, a megabyte stands for each gigabyte.

A directory is measured, so a snapshot is asked for with what a copy takes at most. CSI tells nothing of what is in a volume: a
snapshot is asked for with the capacity, and takes what the driver says once it is cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import pytest

from tests.csi_driver.running import NAME, RunningDriver, running_driver

from .apart import IS_BORROWED
from .engine_scene import EngineScene, eventually
from .snapshot_scene import BOTH, VOLUMES, Dialect, Scene, csi_volume
from .space_scene import FORBIDDEN, GI, Tenant, space_scene

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

FILLED = pytest.mark.parametrize("percent", [10, 50, 100], ids=lambda percent: f"{percent}-percent")
STORAGES = pytest.mark.parametrize("storage", ["directories", "csi"], indirect=True)
USED: Final = "ullage.io/used"
CLASS: Final = "raw-devices"


class Storage(Protocol):
    slack: int  # bytes that a snapshot of one volume may take besides its data

    def make(self, name: str, size: int) -> None:
        """A bound claim whose volume is empty."""

    def write(self, name: str, amount: int) -> None:
        """Random bytes in place of what was there."""

    def asked(self, capacity: int, amount: int) -> int:
        """What a snapshot of a volume of this capacity, with so much in it, is asked for with at most."""

    def until_known(self, name: str, amount: int) -> None:
        """Returns when admission knows that so much is in a volume, if it ever does."""


class Directories:
    slack = 64 * 1024

    def __init__(self, scene: Scene, namespace: str) -> None:
        self._scene = scene
        self._namespace = namespace
        self._places: dict[str, Path] = {}

    def make(self, name: str, size: int) -> None:
        self._places[name] = self._scene.files(self._scene.claim(self._namespace, name, size=str(size)))
        self.until_known(name, 0)  # before, it is taken for as large as its capacity

    def write(self, name: str, amount: int) -> None:
        (self._places[name] / "file").write_bytes(os.urandom(amount))

    def asked(self, capacity: int, amount: int) -> int:
        return amount + self.slack

    def until_known(self, name: str, amount: int) -> None:
        eventually(f"{name} was measured with {amount} bytes", lambda: self._measured(name) >= amount)

    def _measured(self, name: str) -> int:
        claim = self._scene.api.get(f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{name}").obj
        volume = self._scene.api.get(f"{VOLUMES}/{claim['spec']['volumeName']}").obj
        return int(json.loads(volume["metadata"].get("annotations", {}).get(USED, '{"bytes":-1}'))["bytes"])


class RawDevices:
    slack = 0

    def __init__(self, scene: Scene, namespace: str, driver: RunningDriver) -> None:
        self._scene = scene
        self._namespace = namespace
        self._driver = driver
        self._handles: dict[str, str] = {}

    def make(self, name: str, size: int) -> None:
        handle = self._handles[name] = csi_volume(self._driver, f"{self._namespace}-{name}", size=size, block=True)
        source = {"csi": {"driver": NAME, "volumeHandle": handle}, "volumeMode": "Block"}
        self._scene.bound_claim(self._namespace, name, source=source, storage_class=CLASS, size=str(size), volumeMode="Block")

    def write(self, name: str, amount: int) -> None:
        with self._driver.data(self._handles[name]).open("r+b") as device:
            device.write(os.urandom(amount))

    def asked(self, capacity: int, amount: int) -> int:
        return capacity

    def until_known(self, name: str, amount: int) -> None:
        """Never: each snapshot is asked for with the capacity."""


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with running_driver() as found:
        yield found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, driver: RunningDriver) -> Iterator[EngineScene]:
    with space_scene(tmp_path_factory.mktemp("space")) as made:
        made.base.storage_class(CLASS, NAME)
        made.base.snapshot_class(CLASS, NAME)
        made.drivers = ("--driver", f"{NAME}={driver.endpoint}")
        made.kill("controller")
        yield made


@pytest.fixture
def tenant(scene: EngineScene) -> Tenant:
    return Tenant(scene)


@pytest.fixture
def storage(request: pytest.FixtureRequest, scene: EngineScene, tenant: Tenant, driver: RunningDriver) -> Storage:
    if request.param == "csi":
        return RawDevices(scene.base, tenant.namespace, driver)
    return Directories(scene.base, tenant.namespace)


@FILLED
@STORAGES
def test_case_2_a_limit_on_a_vm_with_two_volumes(tenant: Tenant, storage: Storage, percent: int) -> None:
    sizes = {"first": 10 * GI, "second": 20 * GI}
    amounts = {name: size * percent // 100 for name, size in sizes.items()}
    full, slack = sum(amounts.values()), 2 * storage.slack
    for name, size in sizes.items():
        storage.make(name, size)
    tenant.machine("vm", *sizes)

    for backup in ("one", "two"):  # nobody has set a limit yet
        for name, amount in amounts.items():
            storage.write(name, amount)
        tenant.backup(backup, "vm")
    for name, amount in amounts.items():
        storage.until_known(name, amount)
    limit = sum(storage.asked(sizes[name], amounts[name]) for name in sizes)
    tenant.limit(vms={"vm": limit})
    eventually("all of it is shown", lambda: 2 * full <= tenant.usage_of("vm") <= 2 * (full + slack))

    refused = tenant.ask_backup("three", "vm")
    assert refused.code == FORBIDDEN, refused.raw
    assert "snapshots/vm/vm" in refused.message
    assert tenant.api.get(f"{tenant.backups}/three").code == 404

    tenant.delete_backups("one", "two")
    eventually("nothing is left", lambda: tenant.usage_of("vm") == 0)
    tenant.backup("four", "vm")
    eventually("it is shown", lambda: full <= tenant.usage_of("vm") <= full + slack)
    eventually("it is within the limit", lambda: tenant.condition("WithinQuota") == "True")


@FILLED
@STORAGES
def test_case_4_a_limit_on_a_namespace_with_a_vm(tenant: Tenant, storage: Storage, percent: int) -> None:
    size, full = 10 * GI, 10 * GI * percent // 100
    storage.make("disk", size)
    tenant.machine("vm", "disk")
    tenant.limit(namespace=storage.asked(size, full))

    storage.write("disk", full)
    tenant.backup("one", "vm")
    eventually("it is shown", lambda: full <= tenant.usage() <= full + storage.slack)
    storage.until_known("disk", full)
    refused = tenant.ask_backup("two", "vm")
    assert refused.code == FORBIDDEN, refused.raw
    assert "snapshots/namespace" in refused.message

    tenant.delete_backups("one")
    eventually("nothing is left", lambda: tenant.usage() == 0)
    tenant.backup("three", "vm")
    eventually("it is shown", lambda: full <= tenant.usage() <= full + storage.slack)


@FILLED
@STORAGES
@pytest.mark.parametrize("dialect", BOTH, ids=lambda dialect: dialect.name)
def test_case_5_a_limit_on_a_namespace_with_a_volume(tenant: Tenant, storage: Storage, dialect: Dialect, percent: int) -> None:
    size, full = 10 * GI, 10 * GI * percent // 100
    storage.make("disk", size)
    tenant.limit(namespace=storage.asked(size, full))

    storage.write("disk", full)
    tenant.snapshot("one", "disk", dialect)
    eventually("it is shown", lambda: full <= tenant.usage() <= full + storage.slack)
    storage.until_known("disk", full)
    refused = tenant.ask_snapshot("two", "disk", dialect)
    assert refused.code == FORBIDDEN, refused.raw
    assert "snapshots/namespace" in refused.message

    tenant.delete_snapshot("one", dialect)
    eventually("nothing is left", lambda: tenant.usage() == 0)
    tenant.snapshot("three", "disk", dialect)
    eventually("it is shown", lambda: full <= tenant.usage() <= full + storage.slack)
