"""A master, seeds and user clusters, each with an API server of its own, and the processes of the master and of the seeds.

The master reaches each seed through a proxy that a test can cut: the seed and its user clusters go on, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import NAMESPACE, manifests
from ullage.app.installer.names import MASTER, SEED, ControlPlaneRole, Names
from ullage.app.installer.roles import CONTROLLER, WEBHOOK
from ullage.app.up.identities import Identities, Identity
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.crds.definitions import crd_of
from ullage.kube.slices import Slice
from ullage.ledger.api import LEDGERS
from ullage.ledger.slice import LEDGER
from ullage.projects.api.kkp import CLUSTERS, PROJECTS, SEEDS, SETTINGS
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.api.records import MACHINE_RECORDS
from ullage.projects.settings import KUBECONFIG_SECRET, SEED_NAMESPACE
from ullage.projects.slice import master as master_slice
from ullage.projects.slice import seed as seed_slice

from .apart import own_plane
from .api import Answer, Api
from .conftest import DEFINITIONS, wait_served
from .control_plane import ControlPlane, EmbeddedServer
from .cutter import Cutter
from .snapshot_scene import Process, eventually

Json = dict[str, Any]
KUBE_SYSTEM = "kube-system"
CREATED, FORBIDDEN = 201, 403
SHORT = ("--request-timeout", "5")  # seconds
HASTE = (*SHORT, "--etcd-timeout", "0", "--user-cluster-timeout", "9")  # a first count is exact 9 s after the limit is there


class Line:
    """The way from the master to a seed, in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._cutter: Cutter = self._do(_cutter(port))

    @property
    def port(self) -> int:
        return self._cutter.port

    def cut(self) -> None:
        async def cut() -> None:
            self._cutter.refusing = True
            self._cutter.cut()

        self._do(cut())

    def mend(self) -> None:
        async def mend() -> None:
            self._cutter.refusing = False

        self._do(mend())

    def close(self) -> None:
        self._do(self._cutter.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


async def _cutter(port: int) -> Cutter:
    return await Cutter(port).__aenter__()


class Processes:
    """The controller and the webhook of one cluster. `kill` ends one with -9, and starts the next."""

    def __init__(self, directory: Path, role: str, options: Iterable[str] = ()) -> None:
        self.directory = directory
        self.role = role
        self.options = tuple(options)
        self._running: dict[str, Process] = {}

    def command(self, name: str) -> list[str]:
        login = ["--kubeconfig", str(Identity(name, self.directory).kubeconfig), "--role", self.role]
        own = ["--metrics-port", "0", "--no-leader-elect"] if name == CONTROLLER else ["--port", "0", "--drain", "0"]
        return [name, *login, *own, *(HASTE if self.role == "seed" else ()), *self.options]

    def start(self, *names: str) -> None:
        for name in names:
            self._running[name] = Process(*self.command(name), log=self.directory / f"{name}.log")

    def end(self, *names: str) -> None:
        for name in names:
            self._running.pop(name).end()

    def kill(self, name: str) -> None:
        self.end(name)
        self.start(name)

    def pid(self, name: str) -> int:
        return self._running[name].process.pid

    def close(self) -> None:
        for name in list(self._running):
            self.end(name)
            log = (self.directory / f"{name}.log").read_text(errors="replace")
            print(f"--- {name} of {self.directory.name}\n{log[-3000:]}")

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log")))


class UserCluster:
    """Where Machines are. Its administrator is the API's."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.server = EmbeddedServer(folder / "data", ephemeral=False, options=SHORT)
        self.server.data_dir.mkdir(parents=True)
        self.server.start()
        self.api = Api(self.server.control_plane())
        for kind in (MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS):
            assert self.api.call("POST", DEFINITIONS, crd_of(kind)).code == CREATED
            wait_served(self.api, kind.path())

    def machine(self, name: str, *, cpu: str = "1", memory: str = "1Gi", storage: str = "10Gi", **meta: Any) -> Json:
        spec = {"cloudProvider": "fake", "cloudProviderSpec": {"cpu": cpu, "memory": memory, "storage": storage}}
        body = {"apiVersion": MACHINES.api_version, "kind": MACHINES.kind, "metadata": {"name": name, **meta}}
        return {**body, "spec": {"providerSpec": {"value": spec}}}

    def ask(self, name: str, *, dry_run: bool = False, **size: Any) -> Answer:
        """Asks for a Machine."""
        return self.api.call("POST", self.machines + ("?dryRun=All" if dry_run else ""), self.machine(name, **size))

    def create(self, name: str, **size: Any) -> None:
        answer = self.ask(name, **size)
        assert answer.code == CREATED, answer.raw

    def delete(self, name: str) -> None:
        answer = self.api.call("DELETE", f"{self.machines}/{name}")
        assert answer.code == 200, answer.raw

    @property
    def machines(self) -> str:
        return MACHINES.path(KUBE_SYSTEM)

    def names(self) -> set[str]:
        return {one["metadata"]["name"] for one in self.api.get(self.machines).obj["items"]}


class SeedCluster:
    """A seed with its processes, and the user clusters that it runs."""

    def __init__(self, name: str, folder: Path, options: Iterable[str] = ()) -> None:
        self.name = name
        self.folder = folder
        self.server = EmbeddedServer(folder / "data", ephemeral=False, options=SHORT)
        self.server.data_dir.mkdir(parents=True)
        self.server.start()
        self.plane = self.server.control_plane()
        self.api = Api(self.plane)
        self.line = Line(self.server.port)
        self.users: dict[str, UserCluster] = {}
        self._stirs = 0
        self.api.create("/api/v1/namespaces", {"metadata": {"name": SEED_NAMESPACE}})
        asyncio.run(install(self.plane, folder, (LEDGER, seed_slice()), role=SEED))
        self.processes = Processes(folder, "seed", options)

    def close(self) -> None:
        self.processes.close()
        for user in self.users.values():
            user.server.stop()
        self.line.close()
        self.server.stop()

    def add(self, cluster: str, project: str, *, provider: str = "fake") -> UserCluster:
        """A user cluster of a project; waits until its Machines are asked about."""
        user = self.users[cluster] = UserCluster(cluster, self.folder / cluster)
        namespace = f"cluster-{cluster}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        secret = {"metadata": {"name": KUBECONFIG_SECRET}, "data": {"kubeconfig": encoded(user.server.kubeconfig)}}
        self.api.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
        body = {"apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind}
        meta = {"name": cluster, "labels": {"project-id": project}}
        spec = {"humanReadableName": cluster, "cloud": {"providerName": provider, "dc": "here"}}
        self.api.create(CLUSTERS.path(), {**body, "metadata": meta, "spec": spec})
        eventually(f"{cluster} asks about its machines", lambda: self.is_asked(user))
        return user

    def stir(self) -> None:
        """The watch of an idle kind moves on about once a minute. Something that counts for nobody moves it on at once."""
        self._stirs += 1
        name = f"stir-{self._stirs}"
        for kind in (CLUSTERS, MACHINE_RECORDS):
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
            self.api.call("POST", kind.path(), body)
            self.api.call("DELETE", kind.path("", name))
        for user in self.users.values():
            user.ask(name, cpu="0", memory="0", storage="0")
            user.api.call("DELETE", f"{user.machines}/{name}")

    def is_asked(self, user: UserCluster) -> bool:
        """Whether the hook stamps what comes."""
        answer = user.ask("probe", dry_run=True)
        return answer.code == FORBIDDEN or "ullage.io/takes" in (answer.obj.get("metadata", {}).get("annotations") or {})

    def ledger(self, project: str) -> Json:
        answer = self.api.get(LEDGERS.path(NAMESPACE, f"project-{project}"))
        return answer.obj if answer.code == 200 else {}

    def limits(self, project: str) -> dict[str, str]:
        found: dict[str, str] = self.ledger(project).get("spec", {}).get("limits", {}).get("machines", {})
        return found

    def usage(self, cluster: str) -> dict[str, str]:
        found: dict[str, str] = self.api.get(CLUSTERS.path("", cluster)).obj.get("status", {}).get("resourceUsage") or {}
        return found

    def quota(self, project: str) -> Json:
        """The copy; empty where there is none."""
        answer = self.api.get(PROJECT_QUOTAS.path("", f"project-{project}"))
        return answer.obj if answer.code == 200 else {}


class Platform:
    """The master, and its seeds."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.api = Api(plane)
        self.folder = folder
        self.seeds: dict[str, SeedCluster] = {}
        folder.mkdir(exist_ok=True)
        self.api.create("/api/v1/namespaces", {"metadata": {"name": SEED_NAMESPACE}})
        asyncio.run(install(plane, folder, (master_slice(),), role=MASTER))
        self.processes = Processes(folder, "master")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.close()
        for seed in self.seeds.values():
            seed.close()

    def add_seed(self, name: str, *options: str) -> SeedCluster:
        seed = self.seeds[name] = SeedCluster(name, self.folder / name, options)
        seed.processes.start(WEBHOOK, CONTROLLER)
        text = seed.server.kubeconfig.read_text().replace(f":{seed.server.port}", f":{seed.line.port}")
        secret = {"metadata": {"name": f"kubeconfig-{name}"}, "data": {"kubeconfig": base64.b64encode(text.encode()).decode()}}
        self.api.create(f"/api/v1/namespaces/{SEED_NAMESPACE}/secrets", secret)
        body = {"apiVersion": SEEDS.api_version, "kind": SEEDS.kind, "metadata": {"name": name}}
        reference = {"kubeconfig": {"name": f"kubeconfig-{name}", "namespace": SEED_NAMESPACE}}
        self.api.create(SEEDS.path(SEED_NAMESPACE), {**body, "spec": reference})
        return seed

    def project(self, name: str) -> None:
        body = {"apiVersion": PROJECTS.api_version, "kind": PROJECTS.kind, "metadata": {"name": name}, "spec": {"name": name}}
        self.api.create(PROJECTS.path(), body)

    def default(self, **quota: str) -> None:
        """Sets the default quota of the installation; without any there is none."""
        spec: Json = {"defaultQuota": {"quota": quota} if quota else None}
        body = {"apiVersion": SETTINGS.api_version, "kind": SETTINGS.kind, "metadata": {"name": "globalsettings"}, "spec": spec}
        if self.api.get(SETTINGS.path("", "globalsettings")).code == 200:
            self.api.merge(SETTINGS.path("", "globalsettings"), {"spec": spec})
        else:
            self.api.create(SETTINGS.path(), body)

    def ask_quota(self, project: str, **quota: str) -> Answer:
        spec = {"subject": {"name": project, "kind": "project"}, "quota": quota}
        body = {
            "apiVersion": PROJECT_QUOTAS.api_version,
            "kind": PROJECT_QUOTAS.kind,
            "metadata": {"name": f"project-{project}"},
            "spec": spec,
        }
        return self.api.call("POST", PROJECT_QUOTAS.path(), body)

    def set_quota(self, project: str, **quota: str | None) -> None:
        """Makes it, or changes what is named; waits until every seed that can be reached is told."""
        if self.quota(project):
            self.api.merge(PROJECT_QUOTAS.path("", f"project-{project}"), {"spec": {"quota": quota}})
        else:
            answer = self.ask_quota(project, **{name: value for name, value in quota.items() if value is not None})
            assert answer.code == CREATED, answer.raw

    def in_force(self, project: str) -> None:
        """Waits until what all seeds may have together is within the quota, and each of them keeps to it."""

        def holds() -> bool:
            for seed in self.seeds.values():
                seed.stir()
            return bool(self.condition(project, "Ready").get("status") == "True")

        try:
            eventually(f"the quota of {project} is in force", holds, seconds=120, every=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.condition(project, 'Ready')}") from None

    def quota(self, project: str) -> Json:
        answer = self.api.get(PROJECT_QUOTAS.path("", f"project-{project}"))
        return answer.obj if answer.code == 200 else {}

    def used(self, project: str) -> dict[str, str]:
        found: dict[str, str] = self.quota(project).get("status", {}).get("globalUsage") or {}
        return found

    def condition(self, project: str, type: str) -> Json:
        found = self.quota(project).get("status", {}).get("conditions", ())
        return next((one for one in found if one["type"] == type), {})

    def users(self) -> list[UserCluster]:
        return [user for seed in self.seeds.values() for user in seed.users.values()]


def eventually_is(what: str, wanted: object, found: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Waits for a value, and says which it was instead."""
    last: list[object] = [None]

    def holds() -> bool:
        last[0] = found()
        return last[0] == wanted

    try:
        eventually(what, holds, seconds=seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}: {last[0]} is there, {wanted} was waited for") from None


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def install(plane: ControlPlane, directory: Path, slices: Iterable[Slice], *, role: ControlPlaneRole) -> None:
    """What `ullage install --role …` does, and the identities that a Deployment's pods have."""
    async with Client(Config.load(plane.kubeconfig, environ={})) as client:
        # Roles are given in the namespaces of other products, too: they are there before us.
        outcomes = await Installer(client).install(
            manifests(tuple(slices), foreign=True, names=Names.of((role,))), tell=lambda outcome: None
        )
        assert not [str(outcome) for outcome in outcomes if outcome.verb == "problem"]
        await Identities(client, [Identity(name, directory) for name in (CONTROLLER, WEBHOOK)]).issue()


@contextlib.contextmanager
def platform(folder: Path) -> Iterator[Platform]:
    """The master is of the sort that the run is about; everything else is embedded."""
    directory = Path(tempfile.mkdtemp(prefix="ullage-"))
    try:
        with own_plane(folder) as plane, Platform(plane, directory / "master") as made:
            made.processes.start(WEBHOOK, CONTROLLER)
            yield made
    finally:
        shutil.rmtree(directory)
