"""The slice as one value: the kinds of groups, their controllers, and the calls to drivers that cut all at once.

The controllers differ by process, as those of snapshots do: the main one plans groups and makes their members, and calls the
drivers that it can reach; a sidecar calls its own driver and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.engines.handles import DRIVER as LONGHORN
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Grant, Part, Slice, Wiring, Write
from ullage.policies.cut_hooks.api import HookSpec
from ullage.policies.cut_hooks.interface import CutHooks, HookAnswer, HookHolder, HooksReady
from ullage.policies.cut_hooks.webhook.access import ACCESS_WRITES
from ullage.policies.groups.api import (
    GROUP_CLASSES,
    GROUP_CONTENTS,
    GROUPS,
    NEXT_GROUP_CLASSES,
    NEXT_GROUP_CONTENTS,
    NEXT_GROUPS,
)
from ullage.policies.groups.controllers.content_sync import GroupContentSyncer
from ullage.policies.groups.controllers.group_adopt import GroupAdopter
from ullage.policies.groups.controllers.group_remove import GroupRemover
from ullage.policies.groups.controllers.group_take import GroupController
from ullage.policies.groups.lookup import group_lookup
from ullage.policies.groups.webhook import make_hooks
from ullage.snapshots.api.ga.types import CONTENTS, SNAPSHOT_CLASSES, VOLUME_SNAPSHOTS
from ullage.snapshots.api.prototype.types import DATAS
from ullage.snapshots.backends.base import GroupBackend
from ullage.snapshots.settings import EBS, HOSTPATH, Settings

# Stands in for cut hooks where none are run: everything may be cut at once.


class Unhooked:
    """See `cut_hooks.interface.CutHooks`."""

    async def prepare(self, holder: HookHolder, claims: Iterable[str], spec: HookSpec | None = None) -> HookAnswer:
        return HooksReady()

    async def leave(self, holder: HookHolder) -> None:
        return None


NAME: Final = "groups"
KINDS: Final[tuple[Kind[Any], ...]] = (
    GROUPS,
    GROUP_CONTENTS,
    GROUP_CLASSES,
    NEXT_GROUPS,
    NEXT_GROUP_CONTENTS,
    NEXT_GROUP_CLASSES,
)
OWN: Final[tuple[Kind[Any], ...]] = (GROUPS, GROUP_CONTENTS, GROUP_CLASSES)
WATCHES: Final[tuple[Kind[Any], ...]] = (
    *OWN,
    VOLUME_SNAPSHOTS,
    CONTENTS,
    DATAS,
    SNAPSHOT_CLASSES,
    CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
CONTENT_WRITES: Final = (Write(GROUP_CONTENTS, ("patch",), ("", "status")),)
WRITES: Final = (
    *CONTENT_WRITES,
    Write(GROUPS, ("patch",), ("", "status")),
    Write(GROUP_CONTENTS, ("create", "delete")),
    Write(VOLUME_SNAPSHOTS, ("create", "delete")),
    Write(VOLUME_SNAPSHOTS, ("patch",), ("", "status")),
    Write(CONTENTS, ("create",)),
    Write(CONTENTS, ("patch",), ("", "status")),
)
NO_GROUPS: Final = frozenset({HOSTPATH, LONGHORN, EBS})  # drivers whose volumes are cut one by one

GroupBackends = Mapping[str, GroupBackend]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """`backends` gives the drivers that this process calls and that may know groups. `manage`: no other snapshotter answers for
    groups, of any driver; `settings` say which drivers are ours."""

    settings: Settings = field(default_factory=Settings)
    backends: Callable[[Wiring], GroupBackends] = lambda wiring: {}
    hooks: Callable[[Wiring], CutHooks] = lambda wiring: Unhooked()
    manage: bool = True
    more: tuple[Kind[Any], ...] = ()  # watched by what `hooks` makes


def groups(options: GroupOptions | None = None) -> Slice:
    """The slice as the main controller has it."""
    chosen = options or GroupOptions()
    if not chosen.manage:
        return Slice(name=NAME)
    return Slice(
        name=NAME,
        kinds=KINDS,
        served=KINDS,
        controllers=Part(
            make=lambda wiring: make_controllers(wiring, chosen),
            watches=(*WATCHES, *chosen.more),
            writes=WRITES,
            events=True,
            secrets=True,
        ),
        hooks=Part(make=make_hooks, writes=ACCESS_WRITES),
        sidecar=_sidecar(chosen),
        grants=_grants(),
    )


def group_sidecar(backend: GroupBackend) -> Slice:
    """The slice as a sidecar has it, for its one driver."""
    options = GroupOptions(backends=lambda wiring: {backend.driver: backend})
    return Slice(name=NAME, controllers=_sidecar(options))


def _sidecar(options: GroupOptions) -> Part[Controller[Any]]:
    return Part(make=lambda wiring: [_syncer(wiring, options)], watches=OWN, writes=CONTENT_WRITES, events=True, secrets=True)


def _grants() -> tuple[Grant, ...]:
    """What users of a namespace may do with groups: with VolumeGroupSnapshots, and never with their contents."""
    return (
        Grant(
            name="edit",
            roles=("edit", "admin"),
            kinds=(GROUPS,),
            verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
        ),
        Grant(name="view", roles=("view",), kinds=(GROUPS, GROUP_CLASSES), verbs=("get", "list", "watch")),
    )


def make_controllers(wiring: Wiring, options: GroupOptions) -> list[Controller[Any]]:
    settings, hooks, recorder = options.settings, options.hooks(wiring), wiring.recorder(NAME)
    lookup = group_lookup(wiring, frozenset(settings.drivers) - NO_GROUPS)
    client, clock, metrics = wiring.client, wiring.clock, wiring.metrics
    taker = GroupController(client, lookup, settings=settings, hooks=hooks, recorder=recorder, clock=clock)
    remover = GroupRemover(client, lookup, settings=settings, hooks=hooks, recorder=recorder, clock=clock)
    adopter = GroupAdopter(client, lookup, settings=settings, clock=clock)
    return [*(one.controller(metrics=metrics) for one in (taker, remover, adopter)), _syncer(wiring, options)]


def _syncer(wiring: Wiring, options: GroupOptions) -> Controller[Any]:
    syncer = GroupContentSyncer(
        wiring.client,
        wiring.cache(GROUP_CONTENTS),
        wiring.cache(GROUPS),
        classes=wiring.cache(GROUP_CLASSES),
        backends=options.backends(wiring),
        clock=wiring.clock,
    )
    return syncer.controller(metrics=wiring.metrics)
