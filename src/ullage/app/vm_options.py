"""Whether backups and restores of VMs are ours, as options say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ullage.errors import BadInput

if TYPE_CHECKING:
    from ullage.app.drivers import Chosen
    from ullage.headroom.settings import Settings as HeadroomSettings
    from ullage.vms.pricing import PricingChoice
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

KubeVirtVersion = Annotated[
    str,
    typer.Option(
        "--kubevirt",
        metavar="VERSION",
        help="The KubeVirt whose launcher pods VMs are charged with: auto, which is what the KubeVirt object says, a version"
        " such as v1.4.0, or seed, which is the formula of the design.",
    ),
]
OverheadRatio = Annotated[
    float | None,
    typer.Option(
        "--overhead-ratio",
        metavar="RATIO",
        help="By which KubeVirt multiplies the memory around a guest, where the KubeVirt object sets no"
        " additionalGuestMemoryOverheadRatio.",
        show_default="1",
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


def pricing_of(version: str, ratio: float | None) -> PricingChoice:
    """How VMs are charged for. The simulated KubeVirt makes pods of the same size."""
    from ullage.vms.pricing import PricingChoice

    return PricingChoice(version=version, overhead_ratio=ratio)


def headroom_of(what: Chosen) -> HeadroomSettings:
    """For what VMs may take of a namespace."""
    from ullage.headroom.settings import KUBEVIRT_NAMESPACES, MIGRATION_MODES, kubevirt_identities
    from ullage.headroom.settings import Settings as HeadroomSettings
    from ullage.names import is_label

    mode = next((one for one in MIGRATION_MODES if one == what.migration), None)
    if mode is None:
        raise BadInput("--migration", what.migration, f"{' or '.join(MIGRATION_MODES)} is allowed")
    for namespace in what.kubevirt_namespaces:
        if not is_label(namespace):
            raise BadInput("--kubevirt-namespace", namespace, "the name of a namespace is allowed")
    return HeadroomSettings(
        restores="manage" if what.manage_vm_restores else "observe",
        migration=mode,
        pricing=pricing_of(what.kubevirt, what.overhead_ratio),
        trusted=kubevirt_identities(what.kubevirt_namespaces or KUBEVIRT_NAMESPACES),
    )
