"""Our GA objects are what the ecosystem expects: the GA snapshotter works on kinds that we define, and either snapshotter goes
on with what the other has left, finished or not.

Both serve our CSI driver, one after the other, on a control plane of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.csi_driver.faults import Fault
from tests.csi_driver.running import RunningDriver, running_driver
from tools.peers.snapshotter.build import snapshotter
from ullage.snapshots.model import GUARD

from .apart import IS_BORROWED, own_plane
from .api import Api
from .built import built
from .control_plane import ControlPlane
from .snapshotters import (
    CONTENTS,
    GROUP,
    SOURCE,
    VOLUMES,
    Snapshotters,
    bind,
    bring_claim,
    bring_classes,
    claim_spec,
    snapshot_of,
)

Json = dict[str, Any]
SECONDS = 60.0
COUNT = 3
NAMES = [f"snap-{number}" for number in range(COUNT)]
BEING_CREATED = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        IS_BORROWED,
        reason="a borrowed cluster has a snapshotter of its own",
    ),
    pytest.mark.timeout(400),  # the first time includes the build
]


@pytest.fixture(scope="module")
def programs() -> Path:
    return built(snapshotter)


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Not the one of the other tests: the kinds are everybody's."""
    with own_plane(tmp_path_factory.mktemp("peers")) as found:
        yield found


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Api:
    """With the kinds that `ullage install` brings."""
    ullage(plane, "install")
    api = Api(plane)
    bring_classes(api)
    return api


@pytest.fixture
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


@pytest.fixture
def snapshotters(plane: ControlPlane, driver: RunningDriver) -> Iterator[Snapshotters]:
    found = Snapshotters(plane.kubeconfig, driver)
    try:
        yield found
    finally:
        print(found.log())
        found.end()


class Shop:
    """A namespace with one claim."""

    def __init__(self, api: Api, driver: RunningDriver) -> None:
        self.api = api
        self.driver = driver
        self.namespace = f"e2e-{uuid.uuid4().hex[:10]}"
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.files = bring_claim(api, driver, namespace=self.namespace, name="data")
        (self.files / "page").write_bytes(b"first\0edition")

    @property
    def snapshots(self) -> str:
        return f"{GROUP}/namespaces/{self.namespace}/volumesnapshots"

    @property
    def claims(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"

    def ask(self) -> None:
        for name in NAMES:
            self.api.create(self.snapshots, snapshot_of("data", name))

    def drop(self) -> None:
        for name in NAMES:
            self.api.delete(f"{self.snapshots}/{name}")

    def all(self, path: str) -> list[Json]:
        return list(self.api.get(path).obj["items"])

    def contents(self) -> list[Json]:
        """Those of this namespace."""
        return [one for one in self.all(CONTENTS) if one["spec"]["volumeSnapshotRef"]["namespace"] == self.namespace]

    def ready(self) -> bool:
        found = self.all(self.snapshots)
        return len(found) == COUNT and all(one.get("status", {}).get("readyToUse") for one in found)

    def is_gone(self) -> bool:
        return not self.all(self.snapshots) and not self.contents()

    def must_be_ready(self) -> None:
        eventually(self.ready, lambda: f"all are ready: {self.all(self.snapshots)}")

    def must_be_gone(self) -> None:
        """Snapshots, contents and the driver's own; and nothing that anybody holds is left on the claim."""
        eventually(self.is_gone, lambda: f"all are gone: {self.all(self.snapshots)} {self.contents()}")
        assert self.driver.snapshots() == []
        eventually(self.is_free, lambda: f"nothing holds the claim: {self.claim('data')['metadata']}")

    def is_free(self) -> bool:
        return not self.claim("data")["metadata"].get("finalizers")

    def claim(self, name: str) -> Json:
        return self.api.get(f"{self.claims}/{name}").obj


@pytest.fixture
def shop(api: Api, driver: RunningDriver) -> Shop:
    return Shop(api, driver)


def ullage(plane: ControlPlane, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "KUBECONFIG": str(plane.kubeconfig)}
    command = [sys.executable, "-m", "ullage", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def hand_over(plane: ControlPlane) -> None:
    """Takes Ullage out of the cluster, with all that another snapshotter would wait for, and installs it for the next test."""
    ullage(plane, "uninstall", "--yes")
    ullage(plane, "install")


def eventually(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not so after {SECONDS:.0f} s: {what()}"
        time.sleep(0.05)


def test_what_they_made_is_listed_restored_and_deleted_by_us(
    plane: ControlPlane, shop: Shop, programs: Path, snapshotters: Snapshotters
) -> None:
    snapshotters.start_theirs(programs)
    shop.ask()
    shop.must_be_ready()
    snapshotters.stop()
    (shop.files / "page").write_bytes(b"second edition")

    listed = ullage(plane, "snapshot", "list", "--pvc", "data", "-n", shop.namespace, "-o", "name")
    assert sorted(line.rpartition("/")[2] for line in listed.splitlines()) == NAMES

    snapshotters.start_ours()
    restored = restore(shop, "copy", NAMES[0])
    assert (restored / "page").read_bytes() == b"first\0edition"
    shop.drop()
    shop.must_be_gone()
    give_back(shop, "copy")


def restore(shop: Shop, claim: str, snapshot: str) -> Path:
    """Binds the claim to the volume that was made for it; returns where its files are."""
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
    made = shop.api.create(shop.claims, {"metadata": {"name": claim}, "spec": {**claim_spec(), "dataSource": source}})
    volume = f"{VOLUMES}/pvc-{made['metadata']['uid']}"
    eventually(lambda: shop.api.get(volume).code == 200, lambda: f"there is a volume for {claim}: {shop.claim(claim)}")
    shop.api.merge(f"{shop.claims}/{claim}", {"spec": {"volumeName": f"pvc-{made['metadata']['uid']}"}})
    bind(shop.api, f"{shop.claims}/{claim}", volume)
    eventually(
        lambda: not shop.claim(claim)["metadata"].get("finalizers"), lambda: f"nothing holds the claim: {shop.claim(claim)}"
    )
    return shop.driver.data(shop.api.get(volume).obj["spec"]["csi"]["volumeHandle"])


def give_back(shop: Shop, claim: str) -> None:
    """Deletes a restored claim: its volume goes with it, and leaves only the one that the snapshots were taken of."""
    volume = shop.claim(claim)["spec"]["volumeName"]
    shop.api.delete(f"{shop.claims}/{claim}")
    eventually(
        lambda: shop.api.get(f"{VOLUMES}/{volume}").code == 404,
        lambda: f"{volume} is gone: {shop.api.get(f'{VOLUMES}/{volume}').raw!r}",
    )
    assert [shop.driver.data(one.id) for one in shop.driver.volumes()] == [shop.files]


def test_what_we_made_is_deleted_by_them(plane: ControlPlane, shop: Shop, programs: Path, snapshotters: Snapshotters) -> None:
    snapshotters.start_ours()
    shop.ask()
    shop.must_be_ready()
    snapshotters.stop()
    assert len(shop.driver.snapshots()) == COUNT
    assert shop.is_free()
    assert all(GUARD in one["metadata"]["finalizers"] for one in shop.all(shop.snapshots))
    hand_over(plane)

    snapshotters.start_theirs(programs)
    shop.drop()
    shop.must_be_gone()


def test_what_they_have_begun_is_finished_by_us(shop: Shop, programs: Path, snapshotters: Snapshotters) -> None:
    shop.driver.set(Fault("CreateSnapshot", "hang", when="after"))  # each is made, and nobody is told
    snapshotters.start_theirs(programs)
    shop.ask()
    eventually(lambda: len(shop.driver.snapshots()) == COUNT, lambda: f"all are begun: {shop.contents()}")
    snapshotters.stop()
    assert [one for one in shop.contents() if BEING_CREATED not in one["metadata"].get("annotations", {})] == []
    before = {one.id for one in shop.driver.snapshots()}

    shop.driver.set()
    snapshotters.start_ours()
    shop.must_be_ready()
    assert {one["status"]["snapshotHandle"] for one in shop.contents()} == before
    assert {one.id for one in shop.driver.snapshots()} == before
    shop.drop()
    shop.must_be_gone()


def test_what_we_have_begun_is_finished_by_them(
    plane: ControlPlane, shop: Shop, programs: Path, snapshotters: Snapshotters
) -> None:
    shop.driver.set(Fault("CreateSnapshot", "hang", when="after"))
    snapshotters.start_ours()
    shop.ask()
    eventually(lambda: len(shop.contents()) == COUNT, lambda: f"all are begun: {shop.contents()}")
    eventually(lambda: len(shop.driver.snapshots()) == 1, lambda: "one is made: of a volume we take one at a time")
    snapshotters.stop()
    (before,) = (one.id for one in shop.driver.snapshots())
    hand_over(plane)

    shop.driver.set()
    snapshotters.start_theirs(programs)
    shop.must_be_ready()
    assert before in {one.id for one in shop.driver.snapshots()}
    assert len(shop.driver.snapshots()) == COUNT
    shop.drop()
    shop.must_be_gone()
