"""Claims that Ullage fills are bound by the real kube-controller-manager, and neither of the two gets in the other's way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.csi_driver.running import NAME, RunningDriver
from tests.e2e.snapshot_scene import GA, PROTOTYPE, VOLUMES, Dialect, Scene, eventually

from .binder import CLASS, driver_of, scene_with_binder, written_claim

CLAIMS = 12
CONTENT = b"first\0edition"
CONFLICT = "the object has been modified"

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]  # the first time includes the build


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[Scene, RunningDriver]]:
    with ExitStack() as stack:
        scene = stack.enter_context(scene_with_binder())
        driver = stack.enter_context(driver_of(scene))
        ours = scene.controller("--driver", f"{NAME}={driver.path}", "--provision", NAME)
        stack.enter_context(scene.running(scene.webhook(), ours))
        yield scene, driver


def bound(scene: Scene, claim: str) -> bool:
    return bool(scene.api.get(claim).obj.get("status", {}).get("phase") == "Bound")


@pytest.mark.parametrize("dialect", [GA, PROTOTYPE], ids=lambda one: str(one.name))
def test_no_claim_is_told_of_a_failure_while_it_is_restored(stage: tuple[Scene, RunningDriver], dialect: Dialect) -> None:
    scene, driver = stage
    namespace = scene.namespace()
    written_claim(scene, driver, namespace, content=CONTENT)
    scene.api.create(dialect.snapshots(namespace), dialect.of_claim("snap", "data"))
    snapshot = f"{dialect.snapshots(namespace)}/snap"
    eventually("the snapshot is ready", lambda: dialect.ready(scene.api.get(snapshot).obj))

    source = {"apiGroup": dialect.group, "kind": "VolumeSnapshot", "name": "snap"}
    names = [f"copy-{number}" for number in range(CLAIMS)]
    claims = [scene.claim(namespace, name, storageClassName=CLASS, dataSourceRef=source) for name in names]
    eventually("all claims are bound", lambda: all(bound(scene, claim) for claim in claims))
    for claim in claims:
        volume = scene.api.get(f"{VOLUMES}/{scene.api.get(claim).obj['spec']['volumeName']}").obj
        assert (driver.data(volume["spec"]["csi"]["volumeHandle"]) / "page").read_bytes() == CONTENT

    told = "the binder has asked for a volume"  # it tells of each try, in order: what went wrong before has been told then
    eventually(told, lambda: all("ExternalProvisioning" in scene.events(claim) for claim in claims))
    failures = {claim: scene.events(claim) for claim in claims if "ProvisioningFailed" in scene.events(claim)}
    assert failures == {}
    log = (scene.directory / "processes.log").read_text().splitlines()
    assert [line for line in log if CONFLICT in line and "will be tried again" in line] == [], "that is no news"


def test_deleted_with_its_claim_a_restored_volume_goes(stage: tuple[Scene, RunningDriver]) -> None:
    scene, driver = stage
    namespace = scene.namespace()
    written_claim(scene, driver, namespace, content=CONTENT)
    scene.api.create(GA.snapshots(namespace), GA.of_claim("snap", "data"))
    source = {"apiGroup": GA.group, "kind": "VolumeSnapshot", "name": "snap"}
    claim = scene.claim(namespace, "copy", storageClassName=CLASS, dataSourceRef=source)  # which waits for the snapshot
    eventually("the claim is bound", lambda: bound(scene, claim))
    name = scene.api.get(claim).obj["spec"]["volumeName"]
    handle = scene.api.get(f"{VOLUMES}/{name}").obj["spec"]["csi"]["volumeHandle"]
    scene.api.delete(claim)
    eventually("its volume is gone", lambda: scene.api.get(f"{VOLUMES}/{name}").code == 404)
    assert handle not in {volume.id for volume in driver.volumes()}
