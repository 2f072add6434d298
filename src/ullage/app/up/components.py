"""What `ullage up` runs beside the API server, and what it does before: install, identities, then engines, webhook,
controllers, the API for people, world, and the seeds where there are any.

The webhook registers itself with its present address and bundle before it says that it is ready, and the controllers start
after that: whatever was registered before the machine went down is never waited for.

What speaks to the API is imported when it is needed, while the API server's process is starting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.app.installer.names import CLUSTER
from ullage.app.up.control_planes import PROJECT, kubeconfigs
from ullage.app.up.seeds import MASTER_ROLES, seed_components
from ullage.app.up.setup import Parts, Setup, with_configuration
from ullage.errors import BadInput
from ullage.standalone.up.components import Component, System
from ullage.standalone.up.supervisor import ProcessRole

if TYPE_CHECKING:
    from ullage.app.configuration.types import Configuration
    from ullage.app.installer.manifests import Manifest
    from ullage.app.installer.outcomes import Outcome
    from ullage.kube.client.client import Client
    from ullage.kube.slices import Slice

VOLUMES = "volumes"  # below the data directory: where claims have their files
SNAPSHOTS = "snapshots"  # and where their snapshots are
ENGINES = "engines"  # where volumes of engines have their data
ENGINE_SOCKET = "engines.sock"  # where their host listens
# What its Configuration says of VMs, as flags: for processes that are started one by one.
VMS = ("--manage-vm-backups", "--manage-vm-restores")


def cluster_parts(slices: Callable[[], Sequence[Slice]], *, seeds: int, project: str) -> Parts:
    """Of the control plane that a person uses. With seeds it is their master, too."""
    from ullage.app.installer.manifests import manifests
    from ullage.app.installer.roles import API, CONTROLLER, WEBHOOK, WORLD
    from ullage.app.installer.secret_access import SecretAccess
    from ullage.app.up.seeds import bring_seeds, seed_secrets
    from ullage.engines.client.connection import address_of
    from ullage.projects.settings import SEED_NAMESPACE
    from ullage.standalone.world.directories import Directories
    from ullage.standalone.world.slice import bring_classes, bring_kubevirt, world

    def wanted(directory: Path) -> Sequence[Manifest]:
        playing = world(Directories(directory / VOLUMES), engines=address_of(directory / ENGINE_SOCKET))
        return manifests(slices(), foreign=True, world=playing)

    async def bring(client: Client, directory: Path) -> Sequence[Outcome]:
        outcomes = await SecretAccess(client).keep(tell=lambda outcome: None)
        await bring_classes(client, engines=True)
        await bring_kubevirt(client)
        if seeds:
            await bring_seeds(client, seeds, project=project)
        return outcomes

    return Parts(
        wanted=wanted,
        accounts=(CONTROLLER, WEBHOOK, API, WORLD),
        namespaces=(SEED_NAMESPACE,) if seeds else (),
        bring=bring,
        secrets=lambda directory: seed_secrets(directory, seeds),
        configuration=lambda directory: configuration_of(directory, seeds=seeds),
    )


def configuration_of(directory: Path, *, seeds: int = 0) -> Configuration:
    """What webhook, controller and API run with."""
    from ullage.app.configuration import types
    from ullage.engines.handles import DRIVER
    from ullage.standalone.world.model import NODE

    host_path = types.HostPath(
        volumes=(str(directory / VOLUMES),), snapshots=str(directory / SNAPSHOTS), node=NODE, single_node=True
    )
    spec = types.Spec(
        roles=MASTER_ROLES if seeds else (CLUSTER,),
        drivers=types.Drivers(provision=(DRIVER,), longhorn=True, host_path=host_path, only_snapshotter=True),
        engines=types.Engines(manage=True, socket=str(directory / ENGINE_SOCKET)),
        virtual_machines=types.VirtualMachines(manage_backups=True, manage_restores=True),  # no Harvester is here
        webhook=types.Webhook(drain_seconds=0),
        api=types.Api(drain_seconds=0, client_files=str(directory)),
    )
    return types.configuration(spec)


def system(
    slices: Callable[[], Sequence[Slice]],
    *,
    program: Sequence[str],
    options: Sequence[str],
    nodes: int = 1,
    seeds: int = 0,
    project: str = PROJECT,
) -> System:
    """`program` is the command `ullage`; `options` go to every process. `nodes` is how many of them the world plays. With
    `seeds` there are so many control planes beside it, and `project` is whose their user clusters are; empty: nobody's."""

    def engine(directory: Path, port: int) -> list[str]:
        own = ["--volumes", str(directory / ENGINES), "--socket", str(directory / ENGINE_SOCKET)]
        return [*program, "engine", *own, *options]

    def webhook(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", _kubeconfig(directory, "webhook"), "--port", str(port)]
        return [*program, "webhook", *with_configuration(directory), *own, *options]

    def controller(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", _kubeconfig(directory, "controller"), "--metrics-port", str(port)]
        return [*program, "controller", *with_configuration(directory), *own, *options]

    def api(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", _kubeconfig(directory, "api"), "--port", str(port)]
        return [*program, "api", *with_configuration(directory), *own, *options]

    def world(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", _kubeconfig(directory, "world"), "--metrics-port", str(port), "--nodes", str(nodes)]
        return [*program, "world", *own, "--volumes", str(directory / VOLUMES), *_engines(directory), *options]

    def check(directory: Path) -> None:
        from ullage.rpc import MAX_SOCKET_PATH

        size = len(os.fsencode(directory / ENGINE_SOCKET))
        if size > MAX_SOCKET_PATH:
            raise BadInput(
                "--data-dir",
                directory,
                f"too long: the path of {ENGINE_SOCKET} in it would have {size} bytes, and that of a socket has "
                f"{MAX_SOCKET_PATH} at most; a shorter path is allowed",
            )

    setup = Setup(lambda: cluster_parts(slices, seeds=seeds, project=project))
    return System(
        setup.prepare,
        setup.maintain,
        (
            Component(ProcessRole("engine", "host of volume engines", "engine host"), engine, "a socket of its own"),
            Component(ProcessRole("webhook", "webhook", "webhook"), webhook, "https://127.0.0.1:{port}"),
            Component(ProcessRole("controller", "controller", "controller"), controller, "http://127.0.0.1:{port}/metrics"),
            Component(ProcessRole("api", "API", "API"), api, "https://127.0.0.1:{port}"),
            Component(ProcessRole("world", "world", "world"), world, "http://127.0.0.1:{port}/metrics"),
            *seed_components(seeds, program=program, options=options, project=project),
        ),
        check,
        lambda directory: kubeconfigs(directory, seeds),
    )


def _engines(directory: Path) -> list[str]:
    return ["--engines", str(directory / ENGINE_SOCKET)]


def _kubeconfig(directory: Path, account: str) -> str:
    from ullage.app.up.identities import Identity

    return str(Identity(account, directory).kubeconfig)
