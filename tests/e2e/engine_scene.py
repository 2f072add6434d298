"""A control plane with volumes of engines: their host, webhook, controllers and world as processes that a test may kill."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ullage.app import compose
from ullage.app.drivers import ONE_MACHINE, Chosen
from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import manifests
from ullage.app.up.components import VMS
from ullage.engines.chain import Entry
from ullage.engines.client.connection import HostConnection, address_of
from ullage.engines.client.host import HostClient
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.slice import bring_classes, bring_kubevirt
from ullage.standalone.world.slice import world as world_slice

from .kubectl import Kubectl
from .snapshot_scene import Process, Scene, eventually, scene

Json = dict[str, Any]
Result = TypeVar("Result")

NAMESPACE = "longhorn-system"
LONGHORN = f"/apis/longhorn.io/v1beta2/namespaces/{NAMESPACE}"
MIB = 1 << 20
SIZE = 32 * MIB


class EngineScene:
    """`kill` ends one process with -9, and starts the next."""

    def __init__(self, base: Scene) -> None:
        self.base = base
        self.api = base.api
        self.socket = base.directory / "engines.sock"
        self.data = base.directory / "engines"
        self.kubectl = Kubectl(base.plane, namespace=NAMESPACE, home=base.directory)
        self.world_options: tuple[str, ...] = ()  # from its next start on
        self.drivers: tuple[str, ...] = ()  # options of the controller from its next start on
        self._processes: dict[str, Process] = {}

    # --- processes ---

    def command(self, name: str) -> list[str]:
        own = ["--engines", str(self.socket)]
        commands = {
            "engine": ["engine", "--volumes", str(self.data), "--socket", str(self.socket)],
            "webhook": [*self.base.webhook(), "--manage-engines", *VMS],
            "controller": [*self.base.controller(), *self.controller_options(), *self.drivers, *VMS],
            "world": [*self.base.world(), *own, *self.world_options],
        }
        return commands[name]

    def controller_options(self) -> tuple[str, ...]:
        """What a controller needs besides to take snapshots inside engines, and to fill claims from them."""
        return "--engines", str(self.socket), "--longhorn", "--provision", "driver.longhorn.io"

    def start(self, name: str) -> None:
        self._processes[name] = Process(*self.command(name), log=self.base.directory / f"{name}.log")

    def end(self, name: str) -> None:
        self._processes.pop(name).end()

    def kill(self, name: str) -> None:
        self.end(name)
        self.start(name)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        try:
            for name in ("engine", "webhook", "controller", "world"):
                self.start(name)
            yield
        finally:
            for name in list(self._processes):
                self.end(name)
                print(f"--- {name}\n{(self.base.directory / f'{name}.log').read_text(errors='replace')[-3000:]}")

    # --- the host ---

    def on_host(self, work: Callable[[HostClient], Awaitable[Result]]) -> Result:
        async def call() -> Result:
            async with HostConnection(address_of(self.socket)) as connection:
                return await work(connection.host)

        return asyncio.run(call())

    def volumes_on_host(self) -> dict[str, bool]:
        """And whether they are attached."""
        return {one.name: one.attached for one in self.on_host(lambda host: host.list())}

    def write(self, volume: str, offset: int, data: bytes) -> None:
        self.on_host(lambda host: host.write(volume, offset=offset, data=data))

    def read(self, volume: str, offset: int, length: int) -> bytes:
        return self.on_host(lambda host: host.read(volume, offset=offset, length=length))

    def chain(self, volume: str) -> Mapping[str, Entry]:
        """What the engine of an attached volume has, by name."""
        return self.on_host(lambda host: host.engine(volume).snapshots()).entries

    def entries(self, volume: str) -> set[str]:
        return set(self.chain(volume))

    # --- objects ---

    def get(self, plural: str, name: str) -> Json | None:
        answer = self.api.get(f"{LONGHORN}/{plural}/{name}")
        assert answer.code in (200, 404), answer.raw
        return answer.obj if answer.code == 200 else None

    def claim(self, namespace: str, name: str, **spec: Any) -> tuple[str, str]:
        """Waits until it is bound; its path, and the Volume behind it."""
        path = self.base.claim(namespace, name, size=str(SIZE), storageClassName="longhorn", **spec)
        eventually(f"{path} is bound", lambda: self.api.get(path).obj.get("status", {}).get("phase") == "Bound")
        return path, str(self.api.get(path).obj["spec"]["volumeName"])

    def pod(self, namespace: str, claim: str, *, name: str = "db") -> str:
        """A pod that has the claim as a raw device; its path."""
        container = {"name": "main", "image": "db", "volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}]}
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        spec = {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 0}
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.api.create(path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        return f"{path}/{name}"

    def volume(self, name: str, **spec: Any) -> None:
        """A Volume that a person makes."""
        body = {"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": name}}
        self.api.create(f"{LONGHORN}/volumes", {**body, "spec": {"size": str(SIZE), **spec}})

    def attach(self, volume: str, node: str = "ullage") -> None:
        self.api.merge(f"{LONGHORN}/volumes/{volume}", {"spec": {"nodeID": node}})
        wanted = "attached" if node else "detached"
        eventually(f"{volume} is {wanted}", lambda: self.state(volume) == wanted)

    def state(self, volume: str) -> str:
        return str((self.get("volumes", volume) or {}).get("status", {}).get("state", ""))

    def engine_state(self, volume: str) -> str:
        return str((self.get("engines", f"{volume}-e-0") or {}).get("status", {}).get("currentState", ""))

    def tickets(self, volume: str) -> list[str]:
        return list((self.get("volumes", volume) or {}).get("spec", {}).get("attachmentTickets") or {})

    def ask(self, volume: str, name: str) -> None:
        """As a person does it: whatever is not said is left to the webhook."""
        body = {"apiVersion": "longhorn.io/v1beta2", "kind": "Snapshot", "metadata": {"name": name}, "spec": {"volume": volume}}
        self.kubectl("apply", "-f", "-", stdin=body)

    def is_ready(self, name: str) -> bool:
        return (self.get("snapshots", name) or {}).get("status", {}).get("readyToUse") is True

    def take(self, volume: str, name: str) -> None:
        self.ask(volume, name)
        eventually(f"snapshot {name} is ready", lambda: self.is_ready(name))

    def condition(self, snapshot: str, type: str) -> str:
        """The reason of a condition of a snapshot, where it is True."""
        found = (self.get("snapshots", snapshot) or {}).get("status", {}).get("conditions", ())
        return next((str(one["reason"]) for one in found if one["type"] == type and one["status"] == "True"), "")

    def snapshots(self, volume: str) -> set[str]:
        found = self.api.get(f"{LONGHORN}/snapshots?labelSelector=longhornvolume%3D{volume}").obj["items"]
        return {one["metadata"]["name"] for one in found}


@contextlib.contextmanager
def engine_scene(folder: Path) -> Iterator[EngineScene]:
    with scene(folder) as base:
        made = EngineScene(base)
        install_engines(made)
        with made.running():
            yield made


def install_engines(made: EngineScene, chosen: Chosen = ONE_MACHINE) -> None:
    asyncio.run(_install(made, chosen))


async def _install(made: EngineScene, chosen: Chosen) -> None:
    """What `ullage up` does before it starts its processes."""
    async with Client(Config.load(made.base.plane.kubeconfig, environ={})) as client:
        playing = world_slice(Directories(made.base.volumes), engines=address_of(made.socket))
        wanted = manifests(compose(chosen), foreign=True, world=playing)
        outcomes = await Installer(client).install(wanted, tell=lambda outcome: None)
        assert not [outcome for outcome in outcomes if outcome.verb == "problem"]
        await bring_classes(client, engines=True)
        await bring_kubevirt(client)


__all__ = ["LONGHORN", "MIB", "NAMESPACE", "SIZE", "EngineScene", "engine_scene", "eventually", "install_engines"]
