"""A control plane with Ullage installed on it, its processes under their own service accounts, and claims bound by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

import ullage
from tests.csi_driver.running import RunningDriver
from ullage.app import compose
from ullage.app.drivers import NOTHING_CHOSEN
from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import manifests
from ullage.app.installer.roles import CONTROLLER, WEBHOOK, WORLD
from ullage.app.up.identities import Identities, Identity
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi import csi_pb2_grpc as services
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.slice import bring_classes
from ullage.standalone.world.slice import world as world_slice

from .apart import own_plane
from .api import Api
from .control_plane import ControlPlane

Json = dict[str, Any]
SOURCE = Path(ullage.__file__).parents[1]
SECONDS = 60.0
HOSTPATH = "ullage.io/hostpath"
NODE = "ullage"
VOLUMES = "/api/v1/persistentvolumes"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SNAPSHOT_CLASSES = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses"


def eventually(what: str, holds: Callable[[], object], *, seconds: float = SECONDS, every: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(every)


# --- the two APIs, in their own words ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    group: str
    records: str  # the path of all records

    def snapshots(self, namespace: str) -> str:
        return f"/apis/{self.group}/v1/namespaces/{namespace}/volumesnapshots"

    def everywhere(self) -> str:
        return f"/apis/{self.group}/v1/volumesnapshots"

    def of_claim(self, name: str, claim: str, **spec: Any) -> Json:
        """A snapshot of a claim, before it is asked for."""
        source = {"source": {"persistentVolumeClaimName": claim}} if self.name == "ga" else {"persistentVolumeClaimName": claim}
        return self._body(name, {**source, **spec})

    def of_record(self, name: str, record: str) -> Json:
        """A snapshot that names the record which stands for it."""
        return self._body(
            name, {"source": {"volumeSnapshotContentName": record}} if self.name == "ga" else {"snapshotDataName": record}
        )

    def of_handle(self, name: str, driver: str, *, handle: str, ref: Json, policy: str = "Delete") -> Json:
        """A record that an administrator makes by hand."""
        spec: Json
        if self.name == "ga":
            source = {"snapshotHandle": handle}
            kind, spec = "VolumeSnapshotContent", {"driver": driver, "deletionPolicy": policy, "source": source}
        elif driver == HOSTPATH:
            kind, spec = "VolumeSnapshotData", {"hostPath": {"snapshot": handle}}
        else:
            kind, spec = "VolumeSnapshotData", {"csiVolumeSnapshotSource": {"driver": driver, "snapshotHandle": handle}}
        return self._body(name, {**spec, "volumeSnapshotRef": ref}, kind=kind)

    def _body(self, name: str, spec: Json, *, kind: str = "VolumeSnapshot") -> Json:
        return {"apiVersion": f"{self.group}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}

    def ready(self, obj: Json) -> bool:
        """Of a snapshot or a record."""
        status = obj.get("status", {})
        return bool(status.get("readyToUse") is True if self.name == "ga" else status.get("phase") == "ready")

    def error(self, obj: Json) -> str:
        """Of a snapshot or a record, with its reason in front; empty where nothing is wrong."""
        status = obj.get("status", {})
        if self.name == "ga":
            return str(status.get("error", {}).get("message", ""))
        found = [one for one in status.get("conditions", ()) if one["type"] == "Error" and one["status"] == "True"]
        return f"{found[0]['reason']}: {found[0]['message']}" if found else ""

    def bound_to(self, snapshot: Json) -> str:
        """The record that a snapshot is bound to."""
        field = "boundVolumeSnapshotContentName" if self.name == "ga" else "snapshotDataName"
        return str(snapshot.get("status", {}).get(field, ""))

    def forged(self, record: str) -> Json:
        """A status that claims to be bound to a record, and ready."""
        if self.name == "ga":
            return {"status": {"boundVolumeSnapshotContentName": record, "readyToUse": True}}
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        return {"status": {"snapshotDataName": record, "phase": "ready", "conditions": [ready]}}

    def handle(self, record: Json) -> str:
        """The storage system's own snapshot; empty while there is none."""
        if self.name == "ga":
            return str(record.get("status", {}).get("snapshotHandle") or record["spec"]["source"].get("snapshotHandle", ""))
        local, remote = (record["spec"].get(source, {}) for source in ("hostPath", "csiVolumeSnapshotSource"))
        return str(local.get("snapshot") or remote.get("snapshotHandle", ""))


GA = Dialect("ga", "snapshot.storage.k8s.io", "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents")
PROTOTYPE = Dialect(
    "prototype",
    "volumesnapshot.external-storage.k8s.io",
    "/apis/volumesnapshot.external-storage.k8s.io/v1/volumesnapshotdatas",
)
BOTH = (GA, PROTOTYPE)


# --- processes ---------------------------------------------------------------------------------------------------------


class Process:
    """One of the product's, for the length of a test at most: it ends with the pipe that we hold."""

    def __init__(self, *command: str, log: Path) -> None:
        ready, ready_child = os.pipe()
        parent_child, self._parent = os.pipe()
        told = ["--ready-fd", str(ready_child), "--parent-fd", str(parent_child)]
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ullage", *command, *told],
                pass_fds=(ready_child, parent_child),
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
        os.close(ready_child)
        os.close(parent_child)
        with os.fdopen(ready) as line:
            said = select.select([line], [], [], SECONDS)[0] and line.readline()
        assert said, f"{command[0]} is not ready:\n{log.read_text()[-4000:]}"
        self.port = int(json.loads(said).get("port", 0))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._parent)


class Scene:
    """`directory` has a short path: a socket's name has 107 bytes at most."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        self.api = Api(plane)
        self.directory = directory
        self.starter: Sequence[str] = ()  # whose login controllers are started with, instead of their service account's
        self.volumes = directory / "volumes"
        self.snapshots = directory / "snapshots"
        for made in (self.volumes, self.snapshots):
            made.mkdir(mode=0o700)

    def login(self, account: str) -> list[str]:
        return ["--kubeconfig", str(Identity(account, self.directory).kubeconfig)]

    def administrator(self) -> list[str]:
        """The login of whoever installed Ullage."""
        return ["--kubeconfig", str(self.plane.kubeconfig)]

    def controller(self, *options: str, alone: bool = True, login: Sequence[str] = ()) -> list[str]:
        """The command; no lease, so that the next one works at once. `alone`: no other snapshotter runs. `login`: of whom,
        instead of the service account."""
        places = ["--hostpath-volumes", str(self.volumes), "--hostpath-snapshots", str(self.snapshots), "--node", NODE]
        places += ["--hostpath-single-node"]
        own = ["--metrics-port", "0", "--no-leader-elect", *(["--only-snapshotter"] if alone else [])]
        return ["controller", *(login or self.starter or self.login(CONTROLLER)), *own, *places, *options]

    def world(self) -> list[str]:
        return ["world", *self.login(WORLD), "--volumes", str(self.volumes)]

    def webhook(self) -> list[str]:
        return ["webhook", *self.login(WEBHOOK), "--port", "0", "--drain", "0"]

    @contextlib.contextmanager
    def running(self, *commands: Sequence[str]) -> Iterator[None]:
        log = self.directory / "processes.log"
        with contextlib.ExitStack() as stack:
            for command in commands:
                stack.callback(Process(*command, log=log).end)
            try:
                yield
            finally:
                print(log.read_text(errors="replace")[-4000:])

    def namespace(self) -> str:
        name = f"e2e-{uuid.uuid4().hex[:10]}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def claim(self, namespace: str, name: str, *, size: str = "1Gi", **spec: Any) -> str:
        """A claim; its path."""
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self.api.create(path, body)
        return f"{path}/{name}"

    def bound_claim(
        self, namespace: str, name: str, *, source: Json, storage_class: str, size: str = "1Gi", **more: Any
    ) -> str:
        """A claim with a volume that no provisioner made; its path."""
        volume = f"{namespace}-{name}"
        path = self.claim(namespace, name, size=size, storageClassName=storage_class, volumeName=volume, **more)
        uid = self.api.get(path).obj["metadata"]["uid"]
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": storage_class,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid},
            "persistentVolumeReclaimPolicy": "Retain",
            **source,
        }
        self.api.create(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec})
        capacity = {"storage": size}
        bound = {"phase": "Bound", "capacity": capacity, "accessModes": ["ReadWriteOnce"]}
        self.api.merge(f"{path}/status", {"status": bound})
        return path

    def files(self, claim: str) -> Path:
        """Waits until the claim at a path is bound; where its files are."""
        eventually(f"{claim} is bound", lambda: self.api.get(claim).obj.get("status", {}).get("phase") == "Bound")
        volume = self.api.get(claim).obj["spec"]["volumeName"]
        return Path(self.api.get(f"{VOLUMES}/{volume}").obj["spec"]["hostPath"]["path"])

    def storage_class(self, name: str, provisioner: str, **fields: Any) -> None:
        body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        self.api.create(STORAGE_CLASSES, {**body, "provisioner": provisioner, **fields})

    def snapshot_class(self, name: str, driver: str, *, policy: str = "Delete", default: bool = True) -> None:
        marks = {"snapshot.storage.kubernetes.io/is-default-class": "true"} if default else {}
        body = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": driver}
        self.api.create(SNAPSHOT_CLASSES, {**body, "metadata": {"name": name, "annotations": marks}, "deletionPolicy": policy})

    def events(self, claim: str) -> str:
        """What was told about a claim, all in one text."""
        namespace, _, name = claim.removeprefix("/api/v1/namespaces/").split("/")
        found = self.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").obj["items"]
        return "\n".join(f"{one['reason']}: {one['note']}" for one in found if one["regarding"]["name"] == name)


# Of the controller, in suites with drivers.
STARTERS: tuple[Callable[[Scene], Sequence[str]], ...] = (lambda made: (), Scene.administrator)
STARTED_BY = ("service account", "administrator")


def csi_volume(driver: RunningDriver, name: str, *, size: int = 1 << 20, block: bool = False) -> str:
    """A volume that a driver makes; its handle."""
    mode = csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    wanted = csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume(), access_mode=mode)
    if block:
        wanted = csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=mode)
    request = csi.CreateVolumeRequest(
        name=name, capacity_range=csi.CapacityRange(required_bytes=size), volume_capabilities=[wanted]
    )
    with grpc.insecure_channel(driver.endpoint) as channel:
        return str(services.ControllerStub(channel).CreateVolume(request, timeout=SECONDS).volume.volume_id)


@contextlib.contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """A control plane of its own: what runs here works on everything there is."""
    with own_plane(folder) as plane, scene_on(plane) as made:
        yield made


@contextlib.contextmanager
def scene_on(plane: ControlPlane) -> Iterator[Scene]:
    directory = Path(tempfile.mkdtemp(prefix="ullage-"))
    try:
        made = Scene(plane, directory)
        asyncio.run(_install(made))
        yield made
    finally:
        shutil.rmtree(directory)


async def _install(scene: Scene) -> None:
    """What `ullage up` does before it starts its processes."""
    async with Client(Config.load(scene.plane.kubeconfig, environ={})) as client:
        wanted = manifests(compose(NOTHING_CHOSEN), foreign=True, world=world_slice(Directories(scene.volumes)))
        outcomes = await Installer(client).install(wanted, tell=lambda outcome: None)
        assert not (problems := [outcome for outcome in outcomes if outcome.verb == "problem"]), problems
        await bring_classes(client)
        await Identities(client, [Identity(name, scene.directory) for name in (CONTROLLER, WEBHOOK, WORLD)]).issue()
