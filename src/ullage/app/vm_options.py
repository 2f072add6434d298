"""Whether backups and restores of VMs are ours, as options say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.app.drivers import Chosen
    from ullage.headroom.settings import Settings as HeadroomSettings
    from ullage.vms.overhead import Overhead
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

KubeVirtTable = Annotated[
    str,
    typer.Option(
        "--kubevirt",
        metavar="VERSION",
        help="The KubeVirt whose overhead VMs are charged with: v0.54, v1.1, v1.4, or seed, which is that of the design.",
    ),
]
KubeVirtNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--kubevirt-namespace",
        metavar="NAME",
        help="Where KubeVirt runs: what its service accounts there say of VMs has happened. May be repeated.",
        show_default="kubevirt and harvester-system",
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


def overhead_of(version: str) -> Overhead:
    """What this version of KubeVirt adds to a guest: for those who charge for VMs, and for who plays KubeVirt's part."""
    from ullage.vms.overhead import TABLES

    if version not in TABLES:
        raise BadInput("--kubevirt", version, f"one of {', '.join(TABLES)} is allowed")
    return TABLES[version]


def headroom_of(what: Chosen) -> HeadroomSettings:
    """For what VMs may take of a namespace."""
    from ullage.headroom.settings import KUBEVIRT_NAMESPACES, MIGRATION_MODES, kubevirt_identities
    from ullage.headroom.settings import Settings as HeadroomSettings
    from ullage.names import is_label

    mode = next((one for one in MIGRATION_MODES if one == what.migration), None)
    if mode is None:
        raise BadInput("--migration", what.migration, f"{' or '.join(MIGRATION_MODES)} is allowed")
    overhead_of(what.kubevirt)
    for namespace in what.kubevirt_namespaces:
        if not is_label(namespace):
            raise BadInput("--kubevirt-namespace", namespace, "the name of a namespace is allowed")
    return HeadroomSettings(
        restores="manage" if what.manage_vm_restores else "observe",
        migration=mode,
        kubevirt=what.kubevirt,
        trusted=kubevirt_identities(what.kubevirt_namespaces or KUBEVIRT_NAMESPACES),
    )
