"""Which drivers' snapshots are ours, as options say it, and the backends that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.app.project_options import ProjectChoice
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.engines.slice import Options as EngineOptions
    from ullage.snapshots.slice import Options

SIDECAR: Final = "sidecar"
WAITING_SNAPSHOTS: Final = 300  # as ledger/charging/waiting.py has it, which is not imported for --help

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
MeasureInterval = Annotated[
    float,
    typer.Option(
        "--measure-interval",
        metavar="SECONDS",
        min=0,
        help="How often hostPath volumes that have snapshots are measured; the others 12 times less often. 0: never.",
    ),
]
MEASURE_SECONDS: Final = 300.0
REQUEST_SECONDS: Final = 34.0  # kube-apiserver's for writes, whatever it is told
ETCD_SECONDS: Final = 7.0
USER_CLUSTER_SECONDS: Final = 75.0
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
    measure_interval: float = MEASURE_SECONDS
    manage_vm_backups: bool = False  # backups of VMs are ours, since Harvester does not run here
    manage_vm_restores: bool = False  # and restores
    observe_groups: bool = False  # another snapshotter answers for VolumeGroupSnapshots
    migration: str = "reserve"  # where the room for live migrations comes from
    kubevirt: str = "auto"  # the version whose launcher pods VMs are charged with
    overhead_ratio: float | None = None  # where the KubeVirt object sets none
    kubevirt_namespaces: tuple[str, ...] = ()  # where its service accounts are; none named: where they mostly are
    projects: ProjectChoice = field(default_factory=ProjectChoice)  # the roles, and what is set about project quotas
    request_timeout: float = REQUEST_SECONDS  # the API server's own, for writes
    storage_timeout: float = ETCD_SECONDS  # what its storage may take besides
    user_cluster_timeout: float = USER_CLUSTER_SECONDS  # both, of the API servers of user clusters
    waiting_snapshots: int = WAITING_SNAPSHOTS  # of a namespace: those of claims that are not there


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
    measure_interval: float = MEASURE_SECONDS,
    manage_engines: bool = False,
    manage_vm_backups: bool = False,
    manage_vm_restores: bool = False,
    migration: str = "reserve",
    kubevirt: str = "auto",
    overhead_ratio: float | None = None,
    kubevirt_namespaces: Sequence[str] | None = None,
    projects: ProjectChoice | None = None,
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
        measure_interval=measure_interval,
        manage_engines=manage_engines or engines is not None,
        manage_vm_backups=manage_vm_backups,
        manage_vm_restores=manage_vm_restores,
        migration=migration,
        kubevirt=kubevirt,
        overhead_ratio=overhead_ratio,
        kubevirt_namespaces=tuple(kubevirt_namespaces or ()),
        projects=projects or ProjectChoice(),
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
    from ullage.app.backends import backends_of
    from ullage.policies.cut_hooks.slice import holds_for_hooks
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
        measure_interval=what.measure_interval,
    )
    return Options(
        settings=settings,
        backends=lambda wiring: backends_of(what, wiring),
        hooks=holds_for_hooks(),
        holds=what.longhorn and what.manage_engines,
        foreign_longhorn=what.longhorn and not what.manage_engines,
    )


def engines_of(what: Chosen) -> EngineOptions:
    """For the slice of engines. Where Longhorn runs its kinds are its own; else engines are those of an embedded host, or real
    ones that their Engines say where to find."""
    from ullage.app.backends import engine_clients
    from ullage.engines.settings import Settings
    from ullage.engines.slice import Options

    return Options(settings=Settings(manage=what.manage_engines), engines=engine_clients(what))
