"""The slice as one value: backups and restores of VMs, for those kinds that are ours."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.snapshots.api.ga.types import CONTENTS, SNAPSHOTS
from ullage.snapshots.lookup import volume_lookup
from ullage.vms import webhook as hooks
from ullage.vms.api.backups import BACKUPS
from ullage.vms.api.machines import INSTANCES, MACHINES
from ullage.vms.api.restores import RESTORES
from ullage.vms.controllers.backup_take import BackupController
from ullage.vms.controllers.restore_perform import RestoreController
from ullage.vms.lookup import machine_lookup, restores_by_target
from ullage.vms.roles import aggregated_roles
from ullage.vms.settings import Settings

NAME: Final = "vms"
_VOLUMES: Final[tuple[Kind[Any], ...]] = (MACHINES, INSTANCES, SNAPSHOTS, CONTENTS, CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES)

BACKUP_WRITES: Final = (
    Write(BACKUPS, ("patch",), ("", "status")),
    Write(SNAPSHOTS, ("create", "patch", "delete")),
)


RESTORE_WRITES: Final = (
    Write(RESTORES, ("patch",), ("", "status")),
    Write(BACKUPS, ("get",)),
    Write(CLAIMS, ("create", "patch", "delete")),
    Write(MACHINES, ("create", "patch")),
)


def vms(settings: Settings | None = None) -> Slice:
    """What is observed is somebody else's: nothing is brought, and nothing is asked of its definition."""
    chosen = settings or Settings()
    kinds: tuple[Kind[Any], ...] = (
        *((BACKUPS,) if chosen.backups == "manage" else ()),
        *((RESTORES,) if chosen.restores == "manage" else ()),
    )
    if not kinds:
        return Slice(name=NAME)
    return Slice(
        name=NAME,
        kinds=kinds,
        served=(MACHINES, INSTANCES),
        controllers=Part(
            make=lambda wiring: make_controllers(wiring, chosen),
            watches=(*_VOLUMES, *kinds),
            writes=(
                *(BACKUP_WRITES if chosen.backups == "manage" else ()),
                *(RESTORE_WRITES if chosen.restores == "manage" else ()),
            ),
            events=True,
        ),
        hooks=Part(
            make=lambda wiring: hooks.make_hooks(wiring, chosen),
            watches=(RESTORES,) if chosen.restores == "manage" else (),
            writes=tuple(Write(kind, ("get",)) for kind in (MACHINES, INSTANCES, BACKUPS)),
        ),
        grants=aggregated_roles(kinds),
    )


def make_controllers(wiring: Wiring, settings: Settings) -> list[Controller[Any]]:
    made: list[Controller[Any]] = []
    if settings.backups == "manage":
        made.append(_backups(wiring).controller(metrics=wiring.metrics))
    if settings.restores == "manage":
        made.append(_restores(wiring, settings).controller(metrics=wiring.metrics))
    return made


def _backups(wiring: Wiring) -> BackupController:
    return BackupController(
        wiring.client,
        wiring.cache(BACKUPS),
        wiring.shared(machine_lookup),
        volumes=volume_lookup(wiring),
        snapshots=wiring.cache(SNAPSHOTS),
        records=wiring.cache(CONTENTS),
        recorder=wiring.recorder(NAME),
        clock=wiring.clock,
    )


def _restores(wiring: Wiring, settings: Settings) -> RestoreController:
    return RestoreController(
        wiring.client,
        wiring.shared(restores_by_target),
        wiring.shared(machine_lookup),
        volumes=volume_lookup(wiring),
        within=settings.within,
        recorder=wiring.recorder(NAME),
        clock=wiring.clock,
    )
