"""What the commands are composed of: the slices, and how to run ourselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ullage.app import drivers, group_options, project_options, restore_options, vm_options
from ullage.app.installer.names import CLUSTER, MASTER, SEED, USER_CLUSTER

if TYPE_CHECKING:
    from ullage.kube.slices import Slice
    from ullage.projects.settings import Settings

PROGRAM = (sys.executable, "-m", "ullage")


@dataclass(frozen=True, slots=True)
class Composition:
    """`slices` is called only by commands that need them: importing them takes a while."""

    slices: Callable[[drivers.Chosen], Sequence[Slice]]
    program: Sequence[str] = PROGRAM


class ProjectSlices(Protocol):
    """What `ullage.projects.slice` has."""

    def master(self, settings: Settings | None = None) -> Slice: ...

    def seed(self, settings: Settings | None = None) -> Slice: ...

    def user_cluster(self) -> Slice: ...


def compose(chosen: drivers.Chosen, *, projects: ProjectSlices | None = None) -> Sequence[Slice]:
    """The slices of the product, for the roles that were chosen. There are ledgers where something is charged for, which is
    not on a master: it only divides the limits of its seeds. `projects` stands in for the slices of project quotas."""
    roles = chosen.projects.roles
    slices = [*_of_cluster(chosen)] if CLUSTER in roles else [*_ledger(chosen)] if SEED in roles else []
    if MASTER in roles or SEED in roles:
        found = projects or _project_slices()
        settings = project_options.settings_of(chosen.projects)
        slices += [found.master(settings)] if MASTER in roles else []
        slices += [found.seed(settings)] if SEED in roles else []
    if USER_CLUSTER in roles:
        slices.append((projects or _project_slices()).user_cluster())
    return slices


def _of_cluster(chosen: drivers.Chosen) -> Iterator[Slice]:
    from ullage.engines.slice import engines
    from ullage.headroom.slice import headroom
    from ullage.policies.counts.slice import counts
    from ullage.policies.cut_hooks.slice import cut_hooks
    from ullage.policies.groups.slice import groups
    from ullage.policies.restores.slice import restores
    from ullage.policies.schedules.slice import schedules
    from ullage.policies.sharing.slice import sharing
    from ullage.snapshots.slice import snapshots
    from ullage.space.slice import space
    from ullage.vms.slice import vms

    machines = vm_options.settings_of(chosen)
    yield from _ledger(chosen)
    yield engines(drivers.engines_of(chosen))
    served = drivers.options_of(chosen)
    yield snapshots(served)
    yield cut_hooks()
    yield groups(group_options.options_of(chosen))
    yield restores(restore_options.options_of(chosen))
    yield schedules()
    yield sharing(frozenset(served.settings.drivers))
    yield vms(machines)
    yield counts()
    yield space(machines, most_waiting=chosen.waiting_snapshots)
    yield headroom(vm_options.headroom_of(chosen))


def _ledger(chosen: drivers.Chosen) -> Iterator[Slice]:
    from ullage.ledger.service.expiry import Settings
    from ullage.ledger.slice import ledger

    yield ledger(
        Settings.of(
            request_timeout=chosen.request_timeout,
            storage_timeout=chosen.storage_timeout,
            elsewhere=chosen.user_cluster_timeout,
        )
    )


def _project_slices() -> ProjectSlices:
    from ullage.projects import slice as found

    return found
