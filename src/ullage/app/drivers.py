"""Which drivers' snapshots are ours, as options say it, and the backends that follow from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.app.sockets import WatchedSocket
from ullage.errors import BadInput, UllageError

if TYPE_CHECKING:
    from ullage.engines.client.interface import EngineClients
    from ullage.engines.slice import Options as EngineOptions
    from ullage.kube.slices import Wiring
    from ullage.snapshots.backends.base import Backend
    from ullage.snapshots.backends.hostpath.backend import HostPathBackend
    from ullage.snapshots.slice import Options

logger = logging.getLogger(__name__)

SIDECAR: Final = "sidecar"
INTERRUPTED_KEPT: Final = 3600.0  # seconds for which copies wait at least, after the start, for somebody to ask for them again

Drivers = Annotated[
    list[str] | None,
    typer.Option(
        "--driver",
        metavar="NAME=SOCKET|sidecar",
        help="A CSI driver whose snapshots are taken here: called on its socket, or by a sidecar. May be repeated.",
    ),
]
Provisions = Annotated[
    list[str] | None,
    typer.Option(
        "--provision",
        metavar="NAME",
        help="A --driver, or driver.longhorn.io, whose claims are filled from GA snapshots here: it has no "
        "external-provisioner. May be repeated.",
    ),
]
OnlySnapshotter = Annotated[
    bool,
    typer.Option(
        "--only-snapshotter",
        help="No other snapshot controller runs in the cluster: answer for volumes of every driver.",
    ),
]
Volumes = Annotated[
    list[Path] | None,
    typer.Option(
        "--hostpath-volumes", metavar="DIR", help="Where hostPath volumes lie that may have snapshots. May be repeated."
    ),
]
Snapshots = Annotated[Path | None, typer.Option("--hostpath-snapshots", metavar="DIR", help="Where their snapshots are kept.")]
SingleNode = Annotated[
    bool,
    typer.Option(
        "--hostpath-single-node",
        help="hostPath volumes without node affinity are on this node: it is the only one, or all share the directories.",
    ),
]
Longhorn = Annotated[
    bool,
    typer.Option(
        "--longhorn",
        help="Snapshots of volumes of driver.longhorn.io are taken here, through its own objects: it has no csi-snapshotter.",
    ),
]
LonghornClaims = Annotated[
    bool,
    typer.Option(
        "--longhorn",
        help="Longhorn runs in the cluster, and ullage takes its snapshots: who deletes a claim is told which go with it.",
    ),
]
Engines = Annotated[
    Path | None,
    typer.Option(
        "--engines",
        metavar="SOCKET",
        help="Where a host of embedded engines listens: the snapshots of its volumes are looked after here.",
    ),
]
ManageEngines = Annotated[
    bool,
    typer.Option(
        "--manage-engines",
        help="Longhorn does not run in the cluster: its kinds are ours to bring, to check and to look after.",
    ),
]
AuditInterval = Annotated[
    float,
    typer.Option(
        "--audit-interval",
        metavar="SECONDS",
        min=0,
        help="How often drivers are asked to list their snapshots, so that lost ones are noticed: missing twice. 0: never.",
    ),
]
AUDIT_SECONDS: Final = 600.0
Node = Annotated[str | None, typer.Option("--node", metavar="NAME", help="The name of this node, for hostPath volumes.")]


@dataclass(frozen=True, slots=True)
class HostPaths:
    """The first of `volumes` is where restored ones are made."""

    volumes: tuple[Path, ...]
    snapshots: Path
    node: str
    single_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What was chosen, checked. `sockets` are by driver; those of a sidecar have none."""

    sockets: dict[str, Path | None] = field(default_factory=dict)
    provisions: frozenset[str] = frozenset()
    hostpath: HostPaths | None = None
    longhorn: bool = False
    alone: bool = False
    engines: Path | None = None  # the socket of the host of embedded engines
    manage_engines: bool = False  # Longhorn's kinds are ours, since it does not run here
    audit_interval: float = AUDIT_SECONDS
    manage_vm_backups: bool = False  # backups of VMs are ours, since Harvester does not run here
    manage_vm_restores: bool = False  # and restores


NOTHING_CHOSEN: Final = Chosen()
ONE_MACHINE: Final = Chosen(manage_engines=True, longhorn=True, manage_vm_backups=True, manage_vm_restores=True)


def chosen(
    drivers: Sequence[str] | None,
    *,
    provisions: Sequence[str] | None,
    volumes: Sequence[Path] | None,
    snapshots: Path | None,
    node: str | None,
    alone: bool,
    single_node: bool = False,
    longhorn: bool = False,
    engines: Path | None = None,
    audit_interval: float = AUDIT_SECONDS,
    manage_engines: bool = False,
    manage_vm_backups: bool = False,
    manage_vm_restores: bool = False,
) -> Chosen:
    sockets = _sockets(drivers or ())
    connect = {name for name, socket in sockets.items() if socket} | _of_longhorn(longhorn, sockets)
    for name in provisions or ():
        if name not in connect:
            called = ", ".join(sorted(connect)) or "none"
            raise BadInput(
                "--provision", name, f"a --driver with a socket is allowed ({called}); a sidecar has an option of its own"
            )
    return Chosen(
        sockets=sockets,
        provisions=frozenset(provisions or ()),
        hostpath=_hostpath(tuple(volumes or ()), snapshots, node, single_node=single_node),
        longhorn=longhorn,
        alone=alone,
        engines=engines,
        audit_interval=audit_interval,
        manage_engines=manage_engines or engines is not None,
        manage_vm_backups=manage_vm_backups,
        manage_vm_restores=manage_vm_restores,
    )


def _of_longhorn(chosen: bool, sockets: Mapping[str, object]) -> frozenset[str]:
    from ullage.engines.handles import DRIVER

    if chosen and DRIVER in sockets:
        raise BadInput("--longhorn", f"with --driver {DRIVER}", "only one of them is allowed; a driver has one owner")
    return frozenset({DRIVER}) if chosen else frozenset()


def _sockets(given: Sequence[str]) -> dict[str, Path | None]:
    from ullage.snapshots.settings import HOSTPATH

    found: dict[str, Path | None] = {}
    for one in given:
        name, mark, where = one.partition("=")
        if not mark or not name or not where:
            raise BadInput("--driver", one, f"NAME=SOCKET or NAME={SIDECAR} is allowed")
        if name == HOSTPATH:
            raise BadInput("--driver", one, f"{name} is no CSI driver; --hostpath-volumes sets it up")
        if name in found:
            raise BadInput("--driver", one, f"{name} is named twice; a driver has one owner")
        found[name] = None if where == SIDECAR else _socket(where)
    return found


def _socket(where: str) -> Path:
    from ullage.snapshots.backends.csi.channel import socket_path

    return socket_path(where, where="--driver")


def _hostpath(volumes: tuple[Path, ...], snapshots: Path | None, node: str | None, *, single_node: bool) -> HostPaths | None:
    if not volumes and snapshots is None:
        if single_node:
            raise BadInput("--hostpath-single-node", "(given)", "it is about hostPath volumes; --hostpath-volumes sets them up")
        return None
    if not volumes or snapshots is None or not node:
        missing = next(
            name
            for name, value in (("--hostpath-volumes", volumes), ("--hostpath-snapshots", snapshots), ("--node", node))
            if not value
        )
        raise BadInput(missing, "(absent)", "hostPath volumes need --hostpath-volumes, --hostpath-snapshots and --node")
    return HostPaths(volumes, snapshots, node, single_node)


def options_of(what: Chosen) -> Options:
    """For the slice of snapshots. The backends are made when the work begins: before that there is no loop."""
    from ullage.snapshots.settings import HOSTPATH, Owner, Settings
    from ullage.snapshots.slice import Options

    owners: dict[str, Owner] = {name: "here" if socket else "sidecar" for name, socket in what.sockets.items()}
    if what.hostpath is not None:
        owners[HOSTPATH] = "here"
    longhorn = _of_longhorn(what.longhorn, what.sockets)
    owners |= dict.fromkeys(longhorn, "here")
    settings = Settings(
        drivers=owners,
        alone=what.alone,
        elsewhere=(longhorn | set(what.sockets)) - what.provisions,
        audit_interval=what.audit_interval,
    )
    return Options(
        settings=settings,
        backends=lambda wiring: backends_of(what, wiring),
        holds=what.longhorn and what.manage_engines,
        foreign_longhorn=what.longhorn and not what.manage_engines,
    )


def engines_of(what: Chosen) -> EngineOptions:
    """For the slice of engines. Where Longhorn runs its kinds are its own; else engines are those of an embedded host, or real
    ones that their Engines say where to find."""
    from ullage.engines.settings import Settings
    from ullage.engines.slice import Options

    return Options(settings=Settings(manage=what.manage_engines), engines=_engines(what))


def _engines(what: Chosen) -> Callable[[Wiring], EngineClients] | None:
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
        from ullage.snapshots.backends.hostpath.paths import HostPathSettings

        given = what.hostpath
        volumes, snapshots = tuple(_made(root) for root in given.volumes), _made(given.snapshots)
        settings = HostPathSettings(
            volumes=volumes, snapshots=snapshots, restored=volumes[0], node=given.node, single_node=given.single_node
        )
        hostpath = HostPathBackend(settings, clock=wiring.clock)
        wiring.hold(_swept(hostpath))
        made[hostpath.driver] = hostpath
    if what.longhorn:
        from ullage.engines.client.interface import ask_head_size
        from ullage.snapshots.backends.longhorn.backend import LonghornBackend

        found = _engines(what)
        head = partial(ask_head_size, wiring.shared(found)) if found is not None else None
        longhorn = LonghornBackend(wiring.client, holds=what.manage_engines, head=head)
        made[longhorn.driver] = longhorn
    return made


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
