"""Whether backups and restores of VMs are ours, as options say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.app.drivers import Chosen
    from ullage.headroom.settings import Settings as HeadroomSettings
    from ullage.vms.settings import Settings

ManageBackups = Annotated[
    bool,
    typer.Option(
        "--manage-vm-backups",
        help="Harvester does not run in the cluster: VirtualMachineBackups are ours to bring, to check and to make.",
    ),
]
ManageRestores = Annotated[
    bool,
    typer.Option(
        "--manage-vm-restores",
        help="Harvester does not run in the cluster: VirtualMachineRestores are ours to bring, to check and to make.",
    ),
]

MigrationMode = Annotated[
    str,
    typer.Option(
        "--migration",
        metavar="MODE",
        help="Where the room for live migrations comes from: the `reserve` of the namespace's quota, or `scale-quota`: the core"
        " ResourceQuota that Rancher made is raised while instances migrate.",
    ),
]


def settings_of(what: Chosen) -> Settings:
    """For the slice of VMs. Where Harvester runs both kinds are its own."""
    from ullage.engines.handles import DRIVER
    from ullage.vms.settings import Settings

    return Settings(
        backups="manage" if what.manage_vm_backups else "observe",
        restores="manage" if what.manage_vm_restores else "observe",
        within=frozenset() if what.manage_engines else frozenset({DRIVER}),  # where Longhorn runs nothing holds its volumes
    )


def headroom_of(what: Chosen) -> HeadroomSettings:
    """For what VMs may take of a namespace."""
    from ullage.headroom.settings import MIGRATION_MODES
    from ullage.headroom.settings import Settings as HeadroomSettings

    mode = next((one for one in MIGRATION_MODES if one == what.migration), None)
    if mode is None:
        raise BadInput("--migration", what.migration, f"{' or '.join(MIGRATION_MODES)} is allowed")
    return HeadroomSettings(restores="manage" if what.manage_vm_restores else "observe", migration=mode)
