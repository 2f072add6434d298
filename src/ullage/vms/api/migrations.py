"""VirtualMachineInstanceMigration of `kubevirt.io/v1`: the wish that an instance move to another node, and how far that is.

It belongs to KubeVirt, as machines do: see `machines`.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import AGE, Column, Kind, Object, Value
from ullage.kube.objects import Conditions
from ullage.vms.api.machines import GROUP, VERSION, MigrationState, PhaseTransition


class MigrationSpec(Value):
    """What is asked for."""

    vmi_name: str = ""
    """The VirtualMachineInstance that is to move, in the same namespace."""


class MigrationStatus(Value):
    """How far it is."""

    phase: str = ""
    """Pending, Scheduling, Scheduled, PreparingTarget, TargetReady, Running, Succeeded or Failed."""
    migration_state: MigrationState | None = None
    """The move itself, as the instance shows it."""
    conditions: Conditions = ()
    """What is known beyond the phase: migrationRejectedByResourceQuota, for example."""
    phase_transition_timestamps: tuple[PhaseTransition, ...] = ()
    """When it came to each phase."""


class VirtualMachineInstanceMigration(Object):
    """Moves an instance to another node while it runs. For as long as that takes there are two pods of it."""

    spec: MigrationSpec = MigrationSpec()
    """What is asked for."""
    status: MigrationStatus = MigrationStatus()
    """How far it is."""


MIGRATIONS: Final = Kind(
    GROUP,
    VERSION,
    "VirtualMachineInstanceMigration",
    "virtualmachineinstancemigrations",
    VirtualMachineInstanceMigration,
    whole=False,
    short_names=("vmim", "vmims"),
    categories=("all",),
    columns=(
        Column("Phase", ".status.phase", description="How far it is."),
        Column("VMI", ".spec.vmiName", description="The instance that moves."),
        AGE,
    ),
)
