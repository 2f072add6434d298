"""The backends that follow from which drivers are ours, and how volume engines are reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ullage.app.drivers import Chosen, HostPaths
from ullage.errors import UllageError

if TYPE_CHECKING:
    from ullage.engines.client.interface import EngineClients
    from ullage.kube.slices import Wiring
    from ullage.snapshots.backends.base import Backend
    from ullage.snapshots.backends.hostpath.backend import HostPathBackend
    from ullage.snapshots.backends.hostpath.paths import HostPathSettings

# Sockets of others that our processes call: that one is missing is told at once, and not with the first request.


logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0


class WatchedSocket:
    """Looks at one socket, for as long as its block lasts. `owner` is who should be listening there."""

    def __init__(self, path: Path, *, owner: str, every: float = LOOK_SECONDS) -> None:
        self._path = path
        self._owner = owner
        self._every = every
        self._missing = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.look()
        self._task = asyncio.create_task(self._watch(), name=f"socket {self._path}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def look(self) -> None:
        missing = not self._path.exists()
        if missing == self._missing:
            return
        self._missing = missing
        about = {"owner": self._owner, "socket": str(self._path)}
        if missing:
            logger.warning("a socket is missing: is its owner running?", extra=about)
        else:
            logger.info("a socket that was missing is there", extra=about)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self.look()


INTERRUPTED_KEPT: Final = 3600.0  # seconds for which copies wait at least, after the start, for somebody to ask for them again


def engine_clients(what: Chosen) -> Callable[[Wiring], EngineClients] | None:
    """Where engines are found that are ours to ask. The same for all slices of a process: it has one way to them."""
    from ullage.engines.instances import running_engines

    if what.engines is not None:
        return HostedEngines(what.engines)
    return running_engines if what.manage_engines else None


@dataclass(frozen=True, slots=True)
class HostedEngines:
    """Those of the host that listens on a socket."""

    socket: Path

    def __call__(self, wiring: Wiring) -> EngineClients:
        from ullage.engines.client.connection import address_of, connect

        wiring.hold(WatchedSocket(self.socket, owner="host of volume engines"))
        return connect(wiring, address_of(self.socket))


def backends_of(what: Chosen, wiring: Wiring) -> dict[str, Backend]:
    made: dict[str, Backend] = {}
    for name, socket in what.sockets.items():
        if socket is not None:
            from ullage.snapshots.backends.csi.backend import CsiBackend

            backend = CsiBackend.at(socket, driver=name)
            wiring.hold(backend)
            wiring.hold(WatchedSocket(socket, owner=name))
            made[name] = backend
    if what.hostpath is not None:
        from ullage.snapshots.backends.hostpath.backend import HostPathBackend

        hostpath = HostPathBackend(hostpath_settings(what.hostpath), clock=wiring.clock)
        wiring.hold(_swept(hostpath))
        made[hostpath.driver] = hostpath
    if what.longhorn:
        from ullage.engines.instances import ask_head_size
        from ullage.snapshots.backends.longhorn.backend import LonghornBackend

        found = engine_clients(what)
        head = partial(ask_head_size, wiring.shared(found)) if found is not None else None
        longhorn = LonghornBackend(wiring.client, holds=what.manage_engines, head=head)
        made[longhorn.driver] = longhorn
    return made


def hostpath_settings(given: HostPaths) -> HostPathSettings:
    """The directories are there afterwards."""
    from ullage.snapshots.backends.hostpath.paths import HostPathSettings

    volumes, snapshots = tuple(_made(root) for root in given.volumes), _made(given.snapshots)
    return HostPathSettings(
        volumes=volumes, snapshots=snapshots, restored=volumes[0], node=given.node, single_node=given.single_node
    )


def _made(directory: Path) -> Path:
    """The directory as PersistentVolumes name it: without symbolic links."""
    if not directory.exists():
        logger.info("made a directory that was missing", extra={"directory": str(directory)})  # or was it misspelt?
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory.resolve()


@asynccontextmanager
async def _swept(hostpath: HostPathBackend) -> AsyncIterator[None]:
    """What an earlier process left half done goes before the work begins, except copies that can be gone on with: these have
    to be asked for within a time. What is being copied at the end is called off."""
    await hostpath.sweep(keep_interrupted=True)
    later = asyncio.create_task(_swept_later(hostpath))
    try:
        yield
    finally:
        later.cancel()
        await asyncio.wait({later})
        await hostpath.close()


async def _swept_later(hostpath: HostPathBackend) -> None:
    while True:
        await asyncio.sleep(INTERRUPTED_KEPT)
        try:
            await hostpath.sweep()
        except (OSError, UllageError) as error:
            logger.warning("interrupted copies could not be removed", extra={"error": str(error)})
