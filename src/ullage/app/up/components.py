"""What `ullage up` runs beside the API server, and what it does before: install, identities, then engines, webhook,
controllers, the API for people, world.

The webhook registers itself with its present address and bundle before it says that it is ready, and the controllers start
after that: whatever was registered before the machine went down is never waited for.

What speaks to the API is imported when it is needed, while the API server's process is starting.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import BadInput
from ullage.standalone.up.components import Component, System
from ullage.standalone.up.supervisor import ProcessRole

if TYPE_CHECKING:
    from ullage.app.up.identities import Identities
    from ullage.kube.slices import Slice

VOLUMES = "volumes"  # below the data directory: where claims have their files
SNAPSHOTS = "snapshots"  # and where their snapshots are
ENGINES = "engines"  # where volumes of engines have their data
ENGINE_SOCKET = "engines.sock"  # where their host listens
VMS = ("--manage-vm-backups", "--manage-vm-restores")  # no Harvester is here


class ClusterSetup:
    """The administrator's part of `ullage up`. Its client lives from the first install to the last renewal."""

    def __init__(self, slices: Callable[[], Sequence[Slice]]) -> None:
        self._slices = slices
        self._stack = contextlib.AsyncExitStack()
        self._identities: Identities | None = None

    async def prepare(self, directory: Path) -> str:
        """Safe to repeat; what it did, in a line, and a further one for each problem."""
        from ullage.app.installer.installer import Installer
        from ullage.app.installer.manifests import manifests
        from ullage.app.installer.outcomes import summary
        from ullage.app.installer.roles import API, CONTROLLER, WEBHOOK, WORLD
        from ullage.app.installer.secret_access import SecretAccess
        from ullage.app.up.identities import Identities, Identity
        from ullage.engines.client.connection import address_of
        from ullage.kube.client.client import Client
        from ullage.kube.client.config import Config
        from ullage.standalone.world.directories import Directories
        from ullage.standalone.world.slice import bring_classes, bring_kubevirt, world

        await self._stack.aclose()
        config = Config.load(directory / "kubeconfig", environ={})
        client = await self._stack.enter_async_context(Client(config, user_agent="ullage (up)"))
        playing = world(Directories(directory / VOLUMES), engines=address_of(directory / ENGINE_SOCKET))
        wanted = manifests(self._slices(), foreign=True, world=playing)
        outcomes = await Installer(client).install(wanted, tell=lambda outcome: None)
        outcomes += await SecretAccess(client).keep(tell=lambda outcome: None)
        await bring_classes(client, engines=True)
        await bring_kubevirt(client)
        self._identities = Identities(client, [Identity(name, directory) for name in (CONTROLLER, WEBHOOK, API, WORLD)])
        await self._identities.issue()
        problems = "".join(f"\n{outcome}" for outcome in outcomes if outcome.verb == "problem")
        return f"installed: {summary(outcomes)}{problems}"

    async def maintain(self, warn: Callable[[str], None]) -> None:
        async with self._stack:
            if self._identities is None:
                raise RuntimeError("nothing was prepared")
            await self._identities.keep(warn)


def system(slices: Callable[[], Sequence[Slice]], *, program: Sequence[str], options: Sequence[str], nodes: int = 1) -> System:
    """`program` is the command `ullage`; `options` go to every process. `nodes` is how many of them the world plays."""

    def engine(directory: Path, port: int) -> list[str]:
        own = ["--volumes", str(directory / ENGINES), "--socket", str(directory / ENGINE_SOCKET)]
        return [*program, "engine", *own, *options]

    def webhook(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", _kubeconfig(directory, "webhook"), "--port", str(port), "--drain", "0", "--manage-engines"]
        return [*program, "webhook", *own, *VMS, *options]

    def controller(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", _kubeconfig(directory, "controller"), "--metrics-port", str(port)]
        from ullage.engines.handles import DRIVER
        from ullage.standalone.world.model import NODE

        places = ["--hostpath-volumes", str(directory / VOLUMES), "--hostpath-snapshots", str(directory / SNAPSHOTS)]
        longhorn = [*_engines(directory), "--longhorn", "--provision", DRIVER]
        return [
            *program,
            "controller",
            *own,
            *places,
            "--node",
            NODE,
            "--hostpath-single-node",
            "--only-snapshotter",
            *longhorn,
            *VMS,
            *options,
        ]

    def api(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", _kubeconfig(directory, "api"), "--port", str(port), "--drain", "0"]
        return [*program, "api", *own, "--client-files", str(directory), *options]

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

    setup = ClusterSetup(slices)
    return System(
        setup.prepare,
        setup.maintain,
        (
            Component(ProcessRole("engine", "host of volume engines", "engine host"), engine, "a socket of its own"),
            Component(ProcessRole("webhook", "webhook", "webhook"), webhook, "https://127.0.0.1:{port}"),
            Component(ProcessRole("controller", "controller", "controller"), controller, "http://127.0.0.1:{port}/metrics"),
            Component(ProcessRole("api", "API", "API"), api, "https://127.0.0.1:{port}"),
            Component(ProcessRole("world", "world", "world"), world, "http://127.0.0.1:{port}/metrics"),
        ),
        check,
    )


def _engines(directory: Path) -> list[str]:
    return ["--engines", str(directory / ENGINE_SOCKET)]


def _kubeconfig(directory: Path, account: str) -> str:
    from ullage.app.up.identities import Identity

    return str(Identity(account, directory).kubeconfig)
