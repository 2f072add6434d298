"""The slice as one value: backups and restores of VMs, for those kinds that are ours."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS
from ullage.snapshots.lookup import volume_lookup
from ullage.vms import webhook as hooks
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.restores import VM_RESTORES
from ullage.vms.controllers.backup_take import BackupController
from ullage.vms.controllers.restore_perform import RestoreController
from ullage.vms.lookup import machine_lookup, restores_by_target
from ullage.vms.roles import aggregated_roles
from ullage.vms.settings import Settings

NAME: Final = "vms"
_VOLUMES: Final[tuple[Kind[Any], ...]] = (
    VIRTUAL_MACHINES,
    INSTANCES,
    VOLUME_SNAPSHOTS,
    CONTENTS,
    CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)

BACKUP_WRITES: Final = (
    Write(VM_BACKUPS, ("patch",), ("", "status")),
    Write(VOLUME_SNAPSHOTS, ("create", "patch", "delete")),
)


RESTORE_WRITES: Final = (
    Write(VM_RESTORES, ("patch",), ("", "status")),
    Write(VM_BACKUPS, ("get",)),
    Write(CLAIMS, ("create", "patch", "delete")),
    Write(VIRTUAL_MACHINES, ("create", "patch")),
)


def vms(settings: Settings | None = None) -> Slice:
    """What is observed is somebody else's: nothing is brought, and nothing is asked of its definition."""
    chosen = settings or Settings()
    kinds: tuple[Kind[Any], ...] = (
        *((VM_BACKUPS,) if chosen.backups == "manage" else ()),
        *((VM_RESTORES,) if chosen.restores == "manage" else ()),
    )
    if not kinds:
        return Slice(name=NAME)
    return Slice(
        name=NAME,
        kinds=kinds,
        served=(VIRTUAL_MACHINES, INSTANCES),
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
            watches=(VM_RESTORES,) if chosen.restores == "manage" else (),
            writes=tuple(Write(kind, ("get",)) for kind in (VIRTUAL_MACHINES, INSTANCES, VM_BACKUPS)),
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
        wiring.cache(VM_BACKUPS),
        wiring.shared(machine_lookup),
        volumes=volume_lookup(wiring),
        snapshots=wiring.cache(VOLUME_SNAPSHOTS),
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
