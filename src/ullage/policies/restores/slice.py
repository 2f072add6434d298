"""The slice as one value: the kind SnapshotRestore, its controller, and what users may do with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES
from ullage.engines.api import KINDS as ENGINE_KINDS
from ullage.engines.handles import DRIVER as LONGHORN
from ullage.engines.handles import SnapshotHandle
from ullage.errors import UllageError
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.slices import Grant, Part, Slice, Wiring, Write
from ullage.policies.restores import model
from ullage.policies.restores.api import SNAPSHOT_RESTORES
from ullage.policies.restores.controllers.restore_perform import SnapshotRestoreController
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.policies.restores.methods.marks import restores_of
from ullage.policies.restores.methods.recreate import RecreateMethod
from ullage.policies.restores.methods.swap import SwapMethod
from ullage.snapshots.backends.hostpath.in_place import InPlaceBackend
from ullage.snapshots.lookup import kinds_of, snapshot_lookup, volume_lookup
from ullage.snapshots.slice import DIALECTS
from ullage.snapshots.source_volume import source_volume_of

logger = logging.getLogger(__name__)

NAME: Final = "restores"
SWEEP_SECONDS: Final = 3600.0
WRITES: Final = (
    Write(SNAPSHOT_RESTORES, ("get", "patch"), ("", "status")),
    Write(CLAIMS, ("get", "create", "patch", "delete")),
    Write(PERSISTENT_VOLUMES, ("get", "patch")),
    *(Write(dialect.snapshots, ("get", "patch")) for dialect in DIALECTS),
)

REVERT_WRITES: Final = (
    Write(ENGINE_SNAPSHOTS, ("get", "create", "delete")),
    Write(VOLUMES, ("get", "patch")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """`in_place` gives what exchanges directories of this node; None: there are none here."""

    in_place: Callable[[Wiring], InPlaceBackend | None] = lambda wiring: None
    revert: Callable[[Wiring], RestoreMethod | None] = lambda wiring: None
    longhorn: bool = False  # Longhorn's engines are ours to ask, so `revert` gives a way


def restores(options: RestoreOptions | None = None) -> Slice:
    chosen = options or RestoreOptions()
    return Slice(
        name=NAME,
        kinds=(SNAPSHOT_RESTORES,),
        controllers=Part(
            make=lambda wiring: make_controllers(wiring, chosen),
            watches=(*kinds_of(DIALECTS), WATCHED_PODS, SNAPSHOT_RESTORES, *(ENGINE_KINDS if chosen.longhorn else ())),
            writes=(*WRITES, *(REVERT_WRITES if chosen.longhorn else ())),
            events=True,
        ),
        grants=(
            Grant(
                name="edit",
                roles=("edit", "admin"),
                kinds=(SNAPSHOT_RESTORES,),
                verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
            ),
            Grant(name="view", roles=("view",), kinds=(SNAPSHOT_RESTORES,), verbs=("get", "list", "watch")),
        ),
    )


def make_controllers(wiring: Wiring, options: RestoreOptions) -> list[Controller[Any]]:
    made = SnapshotRestoreController(
        wiring.client,
        wiring.cache(SNAPSHOT_RESTORES),
        [snapshot_lookup(wiring, dialect) for dialect in DIALECTS],
        claims=volume_lookup(wiring).claims,
        methods=_methods(wiring, options),
        recorder=wiring.recorder(NAME),
        clock=wiring.clock,
    )
    marked = Source(wiring.cache(PERSISTENT_VOLUMES), restores_of)
    return [made.controller(metrics=wiring.metrics, more=[marked])]


def _methods(wiring: Wiring, options: RestoreOptions) -> Mapping[str, RestoreMethod]:
    revert = options.revert(wiring)
    has_snapshots = _in_longhorn(wiring) if revert is None else lambda volume: False  # engines of ours hold such volumes
    recreate = RecreateMethod(
        wiring.client,
        wiring.cache(PERSISTENT_VOLUMES),
        snapshots={dialect.snapshots.group: dialect.snapshots for dialect in DIALECTS},
        has_snapshots=has_snapshots,
    )
    found: dict[str, RestoreMethod] = {model.RECREATE: recreate}
    if revert is not None:
        found[model.REVERT] = revert
    in_place = options.in_place(wiring)
    if in_place is not None:
        swap = SwapMethod(in_place, wiring.client, wiring.cache(PERSISTENT_VOLUMES), clock=wiring.clock)
        wiring.hold(_swept(swap))
        found[model.SWAP] = swap
    return found


def _in_longhorn(wiring: Wiring) -> Callable[[PersistentVolume], bool]:
    """Whether a volume is Longhorn's own and has snapshots: they are in it, and go with it."""
    lookups = [snapshot_lookup(wiring, dialect) for dialect in DIALECTS]

    def asked(volume: PersistentVolume) -> bool:
        source = source_volume_of(volume)
        if source is None or source.driver != LONGHORN:
            return False
        records = (lookup.dialect.read_record(one) for lookup in lookups for one in lookup.records.items())
        handles = (SnapshotHandle.parse(one.handle) for one in records if one.driver == LONGHORN)
        return any(one is not None and one.volume == source.volume.handle for one in handles)

    return asked


@asynccontextmanager
async def _swept(swap: SwapMethod) -> AsyncIterator[None]:
    """What nobody's restore keeps goes, now and then."""
    sweeping = asyncio.create_task(_sweep(swap))
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.wait({sweeping})


async def _sweep(swap: SwapMethod) -> None:
    while True:
        try:
            await swap.sweep()
        except UllageError as error:
            logger.warning("what restores in place left could not be removed", extra={"error": str(error)})
        await asyncio.sleep(SWEEP_SECONDS)
