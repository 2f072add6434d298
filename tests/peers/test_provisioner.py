"""external-provisioner makes the volumes of a CSI driver, Ullage takes its snapshots: each leaves the other's work alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.csi_driver.faults import Fault
from tests.csi_driver.running import NAME, RunningDriver
from tests.e2e.built import built
from tests.e2e.leash import Leash
from tests.e2e.snapshot_scene import GA, PROTOTYPE, STARTED_BY, STARTERS, VOLUMES, Dialect, Scene, eventually
from tools.peers.provisioner.build import provisioner

from .binder import CLASS, driver_of, scene_with_binder

CONTENT = b"first\0edition"
SNAPSHOT_LIMITS = "/apis/ullage.io/v1alpha1/namespaces/{}/snapshotlimits"

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]  # the first time includes the build


@dataclass(frozen=True, slots=True)
class Stage:
    scene: Scene
    driver: RunningDriver
    log: Path  # of external-provisioner


@pytest.fixture(scope="module", params=STARTERS, ids=STARTED_BY)
def site(request: pytest.FixtureRequest) -> Iterator[Stage]:
    program = built(provisioner) / "csi-provisioner"
    with ExitStack() as stack:
        scene = stack.enter_context(scene_with_binder())
        scene.starter = request.param(scene)
        driver = stack.enter_context(driver_of(scene))
        directory = scene.directory / "provisioner"
        directory.mkdir()
        log = directory / "log"
        leash = Leash(directory)
        stack.callback(leash.end)
        leash.start(provisioner_command(program, scene, driver), log=log)
        ours = scene.controller("--driver", f"{NAME}={driver.path}")
        stack.enter_context(scene.running(scene.webhook(), ours))
        yield Stage(scene, driver, log)


def provisioner_command(program: Path, scene: Scene, driver: RunningDriver) -> list[str]:
    options = [f"--kubeconfig={scene.plane.kubeconfig}", f"--csi-address={driver.path}", "--leader-election=false"]
    quick = ["--retry-interval-start=500ms", "--retry-interval-max=2s", "--kube-api-qps=200", "--kube-api-burst=400"]
    return [str(program), *options, *quick]


class Team:
    """A namespace with a claim `data` that external-provisioner has filled, and a snapshot of it."""

    def __init__(self, stage: Stage) -> None:
        self.scene, self.driver, self.log = stage.scene, stage.driver, stage.log
        self.namespace = stage.scene.namespace()
        self.data = self.claim("data")
        (self.files(self.data) / "page").write_bytes(CONTENT)

    def claim(self, name: str, *, size: str = "1Gi", **spec: Any) -> str:
        return self.scene.claim(self.namespace, name, size=size, storageClassName=CLASS, **spec)

    def restore(self, dialect: Dialect, name: str, *, size: str = "1Gi", snapshot: str = "snap") -> str:
        source = {"apiGroup": dialect.group, "kind": "VolumeSnapshot", "name": snapshot}
        return self.claim(name, size=size, dataSourceRef=source)

    def take(self, dialect: Dialect, name: str = "snap", *, ready: bool = True) -> str:
        self.scene.api.create(dialect.snapshots(self.namespace), dialect.of_claim(name, "data"))
        path = f"{dialect.snapshots(self.namespace)}/{name}"
        if ready:
            eventually(f"{name} is ready", lambda: dialect.ready(self.scene.api.get(path).obj))
        return path

    def phase(self, claim: str) -> str:
        return str(self.scene.api.get(claim).obj.get("status", {}).get("phase"))

    def volume(self, claim: str) -> dict[str, Any]:
        """Waits until the claim is bound; its PersistentVolume."""
        eventually(f"{claim} is bound", lambda: self.phase(claim) == "Bound")
        found: dict[str, Any] = self.scene.api.get(f"{VOLUMES}/{self.scene.api.get(claim).obj['spec']['volumeName']}").obj
        return found

    def files(self, claim: str) -> Path:
        return self.driver.data(self.volume(claim)["spec"]["csi"]["volumeHandle"])

    def gone(self, path: str) -> bool:
        return self.scene.api.get(path).code == 404


@pytest.fixture
def team(site: Stage) -> Iterator[Team]:
    yield Team(site)
    site.driver.set()
    print(site.log.read_text(errors="replace")[-3000:])


RESTORED_BY_US = "ullage.io/restored-from"


@pytest.mark.parametrize("size", ["1Gi", "3Gi"], ids=["as large", "larger"])
def test_a_claim_is_filled_from_a_snapshot_of_ours_by_external_provisioner(team: Team, size: str) -> None:
    team.take(GA)
    (team.files(team.data) / "page").write_bytes(b"second")
    copy = team.restore(GA, "copy", size=size)
    assert (team.files(copy) / "page").read_bytes() == CONTENT
    volume = team.volume(copy)
    assert volume["spec"]["capacity"]["storage"] == size
    assert RESTORED_BY_US not in volume["metadata"]["annotations"], "Ullage leaves it to the driver's provisioner"
    assert "ProvisioningFailed" not in team.scene.events(copy)


def test_a_clone_has_the_data_of_the_claim(team: Team) -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "data"}
    copy = team.claim("copy", dataSource=source)
    assert (team.files(copy) / "page").read_bytes() == CONTENT


def test_a_smaller_claim_is_refused_with_external_provisioners_own_words(team: Team) -> None:
    snapshot = team.take(GA)
    size = team.scene.api.get(snapshot).obj["status"]["restoreSize"]
    copy = team.restore(GA, "copy", size="1Mi")
    eventually("it is told", lambda: "is less than the size" in team.scene.events(copy))
    assert team.phase(copy) == "Pending", f"the snapshot needs {size}"


def test_a_claim_that_was_there_before_its_snapshot_is_filled_when_that_is_ready(team: Team) -> None:
    team.driver.set(upload_seconds=3.0)
    copy = team.restore(GA, "copy")
    eventually("it waits", lambda: "ProvisioningFailed" in team.scene.events(copy))
    team.take(GA)
    assert (team.files(copy) / "page").read_bytes() == CONTENT


def test_a_snapshot_of_the_old_api_is_restored_by_ullage_beside_it(team: Team) -> None:
    team.take(PROTOTYPE)
    copy = team.restore(PROTOTYPE, "copy")
    assert (team.files(copy) / "page").read_bytes() == CONTENT
    assert team.volume(copy)["metadata"]["annotations"][RESTORED_BY_US] == f"{team.namespace}/snap"


def test_a_snapshot_that_is_deleted_waits_for_a_claim_that_waits_for_it(team: Team) -> None:
    others = team.driver.snapshots()
    snapshot = team.take(GA)
    team.driver.set(Fault("CreateVolume", "RESOURCE_EXHAUSTED", message="the pool is full"))
    copy = team.restore(GA, "copy")
    eventually("the driver refuses", lambda: "ProvisioningFailed" in team.scene.events(copy))
    team.scene.api.delete(snapshot)
    told = f"/api/v1/namespaces/{team.namespace}/volumesnapshots/snap"  # as `events` takes paths
    waits = f"SnapshotInUse: claim {team.namespace}/copy is to be filled from it"
    eventually("it tells what it waits for", lambda: waits in team.scene.events(told))
    team.driver.set()
    # external-provisioner fills no claim from a snapshot that goes, also where it had begun to.
    eventually("it is told on the claim, too", lambda: "is currently being deleted" in team.scene.events(copy))
    assert len(team.driver.snapshots()) == len(others) + 1
    team.scene.api.delete(copy)
    eventually("the snapshot is gone", lambda: team.gone(snapshot))
    assert team.driver.snapshots() == others


def test_a_limit_refuses_snapshots_and_no_restores(team: Team) -> None:
    team.take(GA)
    body = {
        "apiVersion": "ullage.io/v1alpha1",
        "kind": "SnapshotLimit",
        "metadata": {"name": "limit"},
        "spec": {"snapshots": 1},
    }
    team.scene.api.create(SNAPSHOT_LIMITS.format(team.namespace), body)

    def is_refused() -> bool:
        """Until the namespace is counted, which takes a moment after its first limit, the answer is to try again."""
        answer = team.scene.api.call("POST", GA.snapshots(team.namespace), GA.of_claim("more", "data"))
        assert answer.code in {403, 429}, answer.raw
        return bool(answer.code == 403)

    eventually("one more is refused", is_refused)
    copy = team.restore(GA, "copy")
    assert (team.files(copy) / "page").read_bytes() == CONTENT
