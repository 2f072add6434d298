"""Beside a GA snapshot-controller, which answers for the snapshots of every driver: it makes contents and takes finalizers off
for ours too. Nothing is left, stuck or written in circles.

Ours runs without `--only-snapshotter`, as it must there.
"""

from __future__ import annotations

import random
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.csi_driver.faults import Fault
from tests.csi_driver.running import RunningDriver, running_driver
from tools.peers.snapshotter.build import snapshotter

from .apart import IS_BORROWED, own_plane
from .api import Api
from .built import built
from .control_plane import ControlPlane
from .snapshot_scene import eventually
from .snapshotters import (
    CLASS,
    CONTENTS,
    GROUP,
    VOLUMES,
    Snapshotters,
    bind,
    bring_claim,
    bring_classes,
    claim_spec,
    snapshot_of,
)
from .test_snapshot_peers import ullage

Json = dict[str, Any]
SEED = 20261116
COUNT = 200
CLAIMS = 4
LONGEST = 0.15  # seconds between a creation and its deletion: some are deleted before anybody has seen them, some are ready
PATIENCE = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a snapshotter of its own"),
    pytest.mark.timeout(400),
]


@pytest.fixture(scope="module")
def programs() -> Path:
    return built(snapshotter)


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("beside")) as found:
        yield found


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


@pytest.fixture(scope="module")
def places() -> Iterator[Path]:
    """For directories that are volumes, and copies of them."""
    with tempfile.TemporaryDirectory(prefix="ullage-") as directory:
        for name in ("volumes", "snapshots"):
            (Path(directory) / name).mkdir(mode=0o700)
        yield Path(directory)


@pytest.fixture(scope="module")
def api(plane: ControlPlane, driver: RunningDriver, programs: Path, places: Path) -> Iterator[Api]:
    """With both snapshotters at work."""
    ullage(plane, "install")
    api = Api(plane)
    bring_classes(api)
    both = Snapshotters(plane.kubeconfig, driver)
    both.start_their_controller(programs)
    both.start_ours(*(f"--hostpath-{name}={places / name}" for name in ("volumes", "snapshots")), "--node=ullage", alone=False)
    try:
        warm = Shop(api, driver)
        warm.api.create(warm.snapshots, snapshot_of("claim-0", "snap"))
        eventually("both are at work", lambda: warm.ready("snap"))
        api.delete(f"{warm.snapshots}/snap")
        yield api
    finally:
        print(both.log())
        both.end()


class Shop:
    """A namespace with some claims."""

    def __init__(self, api: Api, driver: RunningDriver) -> None:
        self.api = api
        self.driver = driver
        self.namespace = f"e2e-{uuid.uuid4().hex[:10]}"
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for number in range(CLAIMS):
            bring_claim(api, driver, namespace=self.namespace, name=f"claim-{number}")

    @property
    def snapshots(self) -> str:
        return f"{GROUP}/namespaces/{self.namespace}/volumesnapshots"

    @property
    def claims(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"

    def all(self, path: str) -> list[Json]:
        return list(self.api.get(path).obj["items"])

    def left(self) -> list[str]:
        """All that tells of a snapshot, wherever."""
        found = [f"snapshot {one['metadata']}" for one in self.all(self.snapshots)]
        found += [f"content {one}" for one in self.all(CONTENTS)]
        found += [f"claim {one['metadata']}" for one in self.all(self.claims) if one["metadata"].get("finalizers")]
        return found + [f"of the driver: {one.name}" for one in self.driver.snapshots()]

    def ready(self, name: str) -> bool:
        return self.api.get(f"{self.snapshots}/{name}").obj.get("status", {}).get("readyToUse") is True

    def error(self, name: str) -> str:
        return str(self.api.get(f"{self.snapshots}/{name}").obj.get("status", {}).get("error", {}).get("message", ""))


@pytest.fixture
def shop(api: Api, driver: RunningDriver) -> Iterator[Shop]:
    yield Shop(api, driver)
    driver.set()


def test_many_that_are_made_and_deleted_at_once_leave_nothing(shop: Shop) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    shop.driver.set(Fault("CreateSnapshot", "wait", when="after", seconds=0.02))
    for number in range(COUNT):
        name = f"s{number:03}"
        shop.api.create(shop.snapshots, snapshot_of(f"claim-{chance.randrange(CLAIMS)}", name))
        time.sleep(chance.choice([0.0, chance.uniform(0, LONGEST)]))  # the random moment
        shop.api.delete(f"{shop.snapshots}/{name}")
    made = len({call.about for call in shop.driver.calls() if call.method == "CreateSnapshot"})
    print(f"{made} were asked for")
    assert made, "none was begun: the deletions came too early to show anything"
    gone(shop)


def gone(shop: Shop, seconds: float = 3.0) -> None:
    """And nobody makes anything anew afterwards."""
    try:
        eventually("nothing is left", lambda: not shop.left(), seconds=PATIENCE, every=0.5)
    finally:
        print("\n".join(shop.left()[:20]))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert shop.left() == []
        time.sleep(0.5)


def test_a_directory_which_the_other_knows_nothing_of_is_taken_and_deleted(shop: Shop, places: Path) -> None:
    """It writes an error of its own, since only CSI volumes have snapshots there."""
    path, volume = places / "volumes" / shop.namespace, f"{shop.namespace}-files"
    path.mkdir()
    (path / "page").write_bytes(b"first")
    named = {"metadata": {"name": "files"}}
    shop.api.create("/apis/storage.k8s.io/v1/storageclasses", {**named, "provisioner": "ullage.io/hostpath"})
    taken = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "deletionPolicy": "Delete"}
    shop.api.create(f"{GROUP}/volumesnapshotclasses", {**named, **taken, "driver": "ullage.io/hostpath"})
    spec = {**claim_spec(), "storageClassName": "files", "volumeName": volume}
    made = shop.api.create(shop.claims, {"metadata": {"name": "files"}, "spec": spec})
    ref = {"kind": "PersistentVolumeClaim", "namespace": shop.namespace, "name": "files", "uid": made["metadata"]["uid"]}
    body = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "files"}
    only = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["ullage"]}
    body |= {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}}
    source = {"claimRef": {"apiVersion": "v1", **ref}, "hostPath": {"path": str(path)}}
    shop.api.create(VOLUMES, {"metadata": {"name": volume}, "spec": {**body, **source}})
    bind(shop.api, f"{shop.claims}/files", f"{VOLUMES}/{volume}")
    asked = snapshot_of("files", "snap")
    asked["spec"]["volumeSnapshotClassName"] = "files"
    shop.api.create(shop.snapshots, asked)
    eventually("it is ready", lambda: shop.ready("snap"))
    eventually("no error is left", lambda: not shop.error("snap"))
    calm(shop)
    shop.api.delete(f"{shop.snapshots}/snap")
    gone(shop)


def test_a_snapshot_is_taken_restored_and_deleted(shop: Shop) -> None:
    shop.api.create(shop.snapshots, snapshot_of("claim-0", "snap"))
    eventually("it is ready", lambda: shop.ready("snap"))
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
    made = shop.api.create(shop.claims, {"metadata": {"name": "copy"}, "spec": {**claim_spec(), "dataSource": source}})
    volume = f"/api/v1/persistentvolumes/pvc-{made['metadata']['uid']}"
    eventually("there is a volume", lambda: shop.api.get(volume).code == 200)
    shop.api.merge(f"{shop.claims}/copy", {"spec": {"volumeName": f"pvc-{made['metadata']['uid']}"}})
    shop.api.delete(f"{shop.snapshots}/snap")
    gone(shop)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(snapshot_of("pending", "snap"), "", id="a claim that has no volume yet"),
        pytest.param(snapshot_of("claim-0", "snap"), "no pool", id="a driver that refuses"),
    ],
)
def test_the_two_do_not_write_in_circles(shop: Shop, body: Json, words: str) -> None:
    shop.api.create(shop.claims, {"metadata": {"name": "pending"}, "spec": {**claim_spec(), "storageClassName": CLASS}})
    shop.driver.set(Fault("CreateSnapshot", "INVALID_ARGUMENT", message="no pool"))
    shop.api.create(shop.snapshots, body)
    eventually("an error is shown", lambda: shop.error("snap") and words in shop.error("snap"))
    calm(shop)
    shop.driver.set()
    shop.api.delete(f"{shop.snapshots}/snap")
    gone(shop)


def calm(shop: Shop) -> None:
    """Nobody writes in circles. Whatever else a server does moves its version too, but not so often."""

    def version() -> int:
        return int(shop.api.get(shop.snapshots).obj["metadata"]["resourceVersion"])

    before = version()
    time.sleep(5.0)  # what is written in circles is written all the time
    written = version() - before
    assert written <= 12, "\n".join(last_versions(shop, since=before))


def last_versions(shop: Shop, *, since: int) -> list[str]:
    """What each kind's objects were written to in turn: what goes in a circle is seen there."""
    found = []
    for path in (shop.snapshots, CONTENTS, shop.claims, VOLUMES):
        with shop.api.watch(f"{path}?resourceVersion={since}&timeoutSeconds=1") as watch:
            found += [f"{path}: {event}" for event in list(watch)[-4:]]
    return found
