"""Which roles a process has, and what is set about project quotas, as options say it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from ullage.app.installer.names import CLUSTER, MASTER, ROLES, SEED, USER_CLUSTER, ControlPlaneRole, Names
from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.projects.settings import Settings

Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="cluster|master|seed|user-cluster",
        help="What it is there for: quotas, snapshots and VMs of this cluster; or project quotas over many clusters, on the"
        " master or on a seed; or to tell the users of a user cluster how they stand. May be repeated: `cluster` and `seed` of"
        " one cluster belong into one process.",
        show_default="cluster",
    ),
]
Surge = Annotated[
    str,
    typer.Option(
        "--surge",
        metavar="MODE",
        help="Machines that replace others where a project's quota is full: `strict` refuses them, `replace` lets them pass the"
        " limit by what they replace.",
    ),
]
UnknownSize = Annotated[
    str,
    typer.Option(
        "--unknown-size",
        metavar="MODE",
        help="Machines whose size nobody knows, where their project has a quota: `refuse` them, or `allow` them uncounted.",
    ),
]
KeepVanished = Annotated[
    float,
    typer.Option(
        "--keep-vanished",
        metavar="SECONDS",
        help="For how long a Machine that went counts on, where its provider cannot be asked whether its server is gone.",
    ),
]
SeedNamespace = Annotated[
    str,
    typer.Option(
        "--seed-namespace",
        metavar="NAME",
        help="Where the master has its Seeds, and the Secrets to reach them; on a seed, the Secrets that providers are asked"
        " with.",
    ),
]

SURGE: Final = "strict"
UNKNOWN_SIZE: Final = "refuse"
KEEP_SECONDS: Final = 120.0
SEED_NAMESPACE: Final = "kubermatic"
_LONGEST: Final = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChoice:
    """The roles of a process, in the order of `ROLES`, and what was set about projects. What is not ours to check here is
    checked by `settings_of`, when the slices are made."""

    roles: tuple[ControlPlaneRole, ...] = (CLUSTER,)
    surge: str = SURGE
    unknown_size: str = UNKNOWN_SIZE
    keep_vanished: float = KEEP_SECONDS
    seed_namespace: str = SEED_NAMESPACE

    @property
    def names(self) -> Names:
        return Names.of(self.roles)


def roles_of(given: Sequence[str] | None) -> tuple[ControlPlaneRole, ...]:
    """Each once, whatever the order. None named: `cluster`."""
    for one in given or ():
        if one not in ROLES:
            raise BadInput("--role", one or repr(one), f"{', '.join(ROLES[:-1])} or {ROLES[-1]} is allowed")
    found = tuple(role for role in ROLES if role in given) if given else (CLUSTER,)
    if MASTER in found and SEED in found:
        # Both follow other clusters by their names, and a Seed and a Cluster may have the same.
        raise BadInput("--role", "master, seed", "one of them is allowed in a process: run a second one for the other")
    if USER_CLUSTER in found and len(found) > 1:
        raise BadInput("--role", ", ".join(found), f"{USER_CLUSTER} is allowed alone: its cluster belongs to its users")
    return found


def roles_that_serve(given: Sequence[str] | None, *, what: str) -> tuple[ControlPlaneRole, ...]:
    """The same for processes that answer requests, of which a user cluster has none."""
    found = roles_of(given)
    if USER_CLUSTER in found:
        raise BadInput(
            "--role", USER_CLUSTER, f"{', '.join(ROLES[:-2])} or {SEED} is allowed: there is no {what} in a user cluster"
        )
    return found


def settings_of(choice: ProjectChoice) -> Settings:
    """For the slices of project quotas."""
    from datetime import timedelta

    from ullage.names import is_label
    from ullage.projects.machines.surge import SurgeSetting
    from ullage.projects.settings import Settings
    from ullage.projects.settings import UnknownSize as UnknownSizeSetting

    surge: SurgeSetting | None = next((one for one in get_args(SurgeSetting) if one == choice.surge), None)
    if surge is None:
        raise BadInput("--surge", choice.surge, f"{' or '.join(get_args(SurgeSetting))} is allowed")
    unknown: UnknownSizeSetting | None = next((one for one in get_args(UnknownSizeSetting) if one == choice.unknown_size), None)
    if unknown is None:
        raise BadInput("--unknown-size", choice.unknown_size, f"{' or '.join(get_args(UnknownSizeSetting))} is allowed")
    if not (math.isfinite(choice.keep_vanished) and 0 <= choice.keep_vanished <= _LONGEST):
        raise BadInput("--keep-vanished", f"{choice.keep_vanished:g}", f"seconds from 0 to {_LONGEST:.0f} are allowed")
    if not is_label(choice.seed_namespace):
        raise BadInput("--seed-namespace", choice.seed_namespace, "the name of a namespace is allowed")
    return Settings(
        seed_namespace=choice.seed_namespace,
        surge=surge,
        unknown_size=unknown,
        keep_vanished=timedelta(seconds=choice.keep_vanished),
    )
