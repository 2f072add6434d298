"""The two snapshotters that can serve the same CSI driver: the GA one (snapshot-controller and csi-snapshotter) and ours.

They take turns on the same objects: one is stopped before the other is started, as in a cluster that moves from one to the
other. Or the GA snapshot-controller, which answers for every driver, runs beside ours, which calls the driver. Claims are
bound by hand, since nobody does that on a bare API server.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import ullage
from tests.csi_driver.calls import make_volume
from tests.csi_driver.running import NAME, RunningDriver

from .api import Api
from .control_plane import ControlPlane
from .leash import Leash

Json = dict[str, Any]
SOURCE: Final = Path(ullage.__file__).parents[1]
CLASS: Final = "csi"  # of storage and of snapshots
GROUP: Final = "/apis/snapshot.storage.k8s.io/v1"
CONTENTS: Final = f"{GROUP}/volumesnapshotcontents"
VOLUMES: Final = "/api/v1/persistentvolumes"
HOOKS_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
HOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
STOP_SECONDS: Final = 20.0
HOOKS_SECONDS: Final = 120.0


class Snapshotters:
    """The processes of either, by name. They end with us, whatever happens to us."""

    def __init__(self, kubeconfig: Path, driver: RunningDriver) -> None:
        self._kubeconfig = kubeconfig
        self._driver = driver
        self._leash = Leash(Path(tempfile.mkdtemp(prefix="ullage-peers-")))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start_theirs(self, programs: Path, *options: str) -> None:
        common = [f"--kubeconfig={self._kubeconfig}", *options]
        self._start("snapshot-controller", [str(programs / "snapshot-controller"), *common])
        self._start("csi-snapshotter", [str(programs / "csi-snapshotter"), f"--csi-address={self._driver.path}", *common])

    def start_their_controller(self, programs: Path) -> None:
        """It alone: what answers for every driver, and calls none. As quick as it can be."""
        quick = ["--kube-api-qps=500", "--kube-api-burst=1000"]
        self._start("snapshot-controller", [str(programs / "snapshot-controller"), f"--kubeconfig={self._kubeconfig}", *quick])

    def start_ours(self, *more: str, alone: bool = True) -> None:
        options = ["--no-leader-elect", f"--driver={NAME}={self._driver.path}", f"--provision={NAME}", *more]
        options += ["--only-snapshotter"] if alone else []
        self._start("ullage controller", self._ullage("controller", *options))

    def start_ours_apart(self) -> None:
        """The driver is called by a sidecar, as where controller and driver are on different nodes."""
        options = ["--no-leader-elect", "--only-snapshotter", f"--driver={NAME}=sidecar"]
        self._start("ullage controller", self._ullage("controller", *options))
        self._start(
            "ullage csi-sidecar", self._ullage("csi-sidecar", "--no-leader-elect", f"--csi-address={self._driver.path}")
        )

    def start_webhook(self) -> None:
        """Has snapshots stamped and booked. Returns when the API server knows the hooks; `forget_hooks` takes them away."""
        options = ["webhook", "--kubeconfig", str(self._kubeconfig), "--port=0", "--drain=0"]
        self._start("ullage webhook", [*self._program(), *options])
        api = Api(ControlPlane.from_kubeconfig(self._kubeconfig, embedded=False, workdir=self._leash.directory))
        until = time.monotonic() + HOOKS_SECONDS
        while not all(_names(api, kind) for kind in HOOKS):
            if time.monotonic() > until:
                raise TimeoutError(f"no hooks are registered after {HOOKS_SECONDS:.0f} s: {self.log()}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Politely, as a cluster does. Returns when all have ended."""
        running, self.running = self.running, {}
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(STOP_SECONDS)

    def end(self) -> None:
        self._leash.end()

    def log(self) -> str:
        """The end of what each has said, for whoever looks for a failure."""
        files = sorted(self._leash.directory.glob("*.log"))
        return "\n".join(f"--- {file.stem}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def _ullage(self, command: str, *options: str) -> list[str]:
        return [*self._program(), command, "--kubeconfig", str(self._kubeconfig), "--metrics-port=0", *options]

    def _program(self) -> list[str]:
        return ["env", f"PYTHONPATH={SOURCE}", sys.executable, "-m", "ullage"]

    def _start(self, name: str, command: Sequence[str]) -> None:
        log = self._leash.directory / f"{name.replace(' ', '-')}.log"
        self.running[name] = self._leash.start(command, log=log)


def forget_hooks(api: Api) -> None:
    """Takes the hooks away whose webhook was ended: they would refuse everything."""
    for kind in HOOKS:
        for name in _names(api, kind):
            api.delete(f"{HOOKS_GROUP}/{kind}/{name}")


def _names(api: Api, kind: str) -> list[str]:
    return [str(one["metadata"]["name"]) for one in api.get(f"{HOOKS_GROUP}/{kind}").obj["items"]]


# --- objects ---------------------------------------------------------------------------------------------------------


def bring_classes(api: Api) -> None:
    meta = {"name": CLASS}
    api.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": meta, "provisioner": NAME, "reclaimPolicy": "Delete"})
    snapshots = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": meta}
    api.create(f"{GROUP}/volumesnapshotclasses", {**snapshots, "driver": NAME, "deletionPolicy": "Delete"})


def bring_claim(api: Api, driver: RunningDriver, *, namespace: str, name: str) -> Path:
    """A claim, bound to a new volume of the driver; returns where its files are."""
    volume = f"{namespace}-{name}"
    handle = make_volume(driver.path, volume)
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    claim = api.create(claims, {"metadata": {"name": name}, "spec": {**claim_spec(), "volumeName": volume}})
    ref = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"apiVersion": "v1", **ref},
        "csi": {"driver": NAME, "volumeHandle": handle},
    }
    api.create(VOLUMES, {"metadata": {"name": volume}, "spec": spec})
    bind(api, f"{claims}/{name}", f"{VOLUMES}/{volume}")
    return driver.data(handle)


def bind(api: Api, claim: str, volume: str) -> None:
    """What the controller of claims writes in the end."""
    bound = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    api.merge(f"{volume}/status", {"status": {"phase": "Bound"}})
    api.merge(f"{claim}/status", {"status": bound})


def claim_spec() -> Json:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }


def snapshot_of(claim: str, name: str) -> Json:
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name},
        "spec": {"volumeSnapshotClassName": CLASS, "source": {"persistentVolumeClaimName": claim}},
    }
