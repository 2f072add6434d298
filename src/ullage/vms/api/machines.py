"""The kinds of `kubevirt.io/v1` that backups are about: VirtualMachine and VirtualMachineInstance.

They belong to KubeVirt: on a cluster they are there already, on one machine we bring them along and the world plays them. Only
what decisions need is decoded; what is not named here is kept and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ullage.kube.kinds import AGE, Column, Kind, Object, Value
from ullage.kube.objects import Conditions

GROUP: Final = "kubevirt.io"
VERSION: Final = "v1"

# --- what both have --------------------------------------------------------------------------------------------------


class ClaimVolume(Value):
    """A claim in the namespace of the VM."""

    claim_name: str = ""
    """The claim."""
    hotpluggable: bool = False
    """Whether it was added while the VM ran."""


class DataVolumeVolume(Value):
    """A DataVolume in the namespace of the VM. Its claim has the same name."""

    name: str = ""
    """The DataVolume, and its claim."""
    hotpluggable: bool = False
    """Whether it was added while the VM ran."""


class MachineVolume(Value):
    """What stands behind a disk: a claim, a DataVolume, or something that has no data of its own (an image, cloud-init)."""

    name: str = ""
    """The name that disks know it by."""
    persistent_volume_claim: ClaimVolume | None = None
    """A claim."""
    data_volume: DataVolumeVolume | None = None
    """A DataVolume."""

    @property
    def claim(self) -> str:
        """The claim that has its data; empty where there is none."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return self.data_volume.name if self.data_volume is not None else ""


class InstanceSpec(Value):
    """What the VM consists of while it runs."""

    volumes: tuple[MachineVolume, ...] = ()
    """What stands behind its disks."""
    node_selector: Mapping[str, str] = {}
    """The labels that its node must have."""
    start_strategy: str = ""
    """Paused: it starts, and waits until somebody lets it go on."""
    eviction_strategy: str = ""
    """What becomes of it when its node is drained: LiveMigrate, LiveMigrateIfPossible, External or None."""


# --- VirtualMachine --------------------------------------------------------------------------------------------------


class MachineTemplate(Value):
    """What is started."""

    spec: InstanceSpec = InstanceSpec()
    """What the VM consists of while it runs."""


class Matcher(Value):
    """An instance type or a preference, by its name."""

    name: str = ""
    """The name of the instance type, or of the preference."""
    kind: str = ""
    """Its kind, in the namespace of the VM or of the cluster; of the cluster where nothing is said."""
    revision_name: str = ""
    """The ControllerRevision that has a copy of it, and holds in its place."""
    infer_from_volume: str = ""
    """The volume whose labels name it."""


class MachineSpec(Value):
    """What is wanted of the VM."""

    running: bool | None = None
    """Whether it is to run. Exactly one of running and runStrategy is set."""
    run_strategy: str = ""
    """When it is to run: Always, RerunOnFailure, Once, Manual or Halted."""
    template: MachineTemplate = MachineTemplate()
    """What is started."""
    instancetype: Matcher | None = None
    """The instance type that gives CPU and memory."""
    preference: Matcher | None = None
    """The preference that fills in what the template leaves out."""


class StateChangeRequest(Value):
    """Somebody asked the VM to start or to stop."""

    action: str = ""
    """Start or Stop."""
    uid: str | None = None
    """The VirtualMachineInstance that is to be stopped: a later one is not meant."""
    data: Mapping[str, str] | None = None
    """How it is to be started: `paused: "true"`."""


class RevisionReference(Value):
    """A ControllerRevision in the namespace of the VM."""

    name: str = ""
    """Its name."""


class MatchedReference(Value):
    """The instance type or the preference that holds for the VM."""

    name: str = ""
    """The name of the instance type, or of the preference."""
    kind: str = ""
    """Its kind."""
    controller_revision_ref: RevisionReference | None = None
    """The copy that was taken when the VM was first seen."""


class MachineStatus(Value):
    """What is known of the VM."""

    printable_status: str = ""
    """Stopped, Starting, Running, Paused, Stopping, Migrating, and others: for people."""
    created: bool = False
    """Whether there is a VirtualMachineInstance of it."""
    ready: bool = False
    """Whether it runs."""
    conditions: Conditions = ()
    """What is known beyond that: Ready, Paused."""
    volume_requests: tuple[Mapping[str, Any], ...] = ()
    """Volumes that are being added or removed while it runs."""
    state_change_requests: tuple[StateChangeRequest, ...] = ()
    """What was asked for and is not done yet, the oldest first."""
    run_strategy: str = ""
    """The run strategy that was last acted upon."""
    observed_generation: int = 0
    """The metadata.generation that all this was said about."""
    instancetype_ref: MatchedReference | None = None
    """The instance type that holds for the VM."""
    preference_ref: MatchedReference | None = None
    """The preference that holds for the VM."""


class VirtualMachine(Object):
    """A virtual machine of KubeVirt: what it consists of, and whether it is to run."""

    spec: MachineSpec = MachineSpec()
    """What is wanted of the VM."""
    status: MachineStatus = MachineStatus()
    """What is known of the VM."""


# --- VirtualMachineInstance ------------------------------------------------------------------------------------------


class MigrationState(Value):
    """A move to another node, the one that goes on or the last one."""

    start_timestamp: str = ""
    """When it began."""
    end_timestamp: str = ""
    """When it ended."""
    completed: bool = False
    """Whether it has ended."""
    failed: bool = False
    """Whether it has failed."""
    failure_reason: str = ""
    """Why it has failed."""
    migration_uid: str = ""
    """The VirtualMachineInstanceMigration that asked for it."""
    source_node: str = ""
    """The node that it leaves."""
    source_pod: str = ""
    """The pod there."""
    target_node: str = ""
    """The node that it goes to."""
    target_pod: str = ""
    """The pod there."""
    mode: str = ""
    """PreCopy: it runs on the new node when all is copied. PostCopy: before."""
    abort_requested: bool = False
    """Whether somebody wants it to end."""
    abort_status: str = ""
    """What became of that."""


class PhaseTransition(Value):
    """A phase that it came to."""

    phase: str = ""
    """The phase."""
    phase_transition_timestamp: str = ""
    """When it first came to it."""


class AttachedClaim(Value):
    """A claim, as the instance has it."""

    claim_name: str = ""
    """The claim."""
    access_modes: tuple[str, ...] = ()
    """How it may be used."""
    capacity: Mapping[str, str | int] = {}
    """What it has."""
    requests: Mapping[str, str | int] = {}
    """What it asked for."""
    volume_mode: str = ""
    """Filesystem or Block."""


class HotplugStatus(Value):
    """That it is there says enough: the volume was added while the VM ran."""


class InstanceVolumeStatus(Value):
    """A volume, as the instance has it."""

    name: str = ""
    """The volume."""
    target: str = ""
    """Its device in the guest."""
    phase: str = ""
    """Of a volume that was added while the VM ran: Pending, Bound or Ready."""
    reason: str = ""
    """Why, in one word."""
    message: str = ""
    """Why, in a sentence."""
    persistent_volume_claim_info: AttachedClaim | None = None
    """Its claim."""
    hotplug_volume: HotplugStatus | None = None
    """There for a volume that was added while the VM ran."""


class InstanceStatus(Value):
    """How it runs."""

    phase: str = ""
    """Pending, Scheduling, Scheduled, Running, Succeeded, Failed or Unknown."""
    node_name: str = ""
    """The node that it runs on."""
    active_pods: Mapping[str, str] = {}
    """The pods that it runs in, by uid, each with its node: two while it moves."""
    evacuation_node_name: str = ""
    """The node that it is asked to leave."""
    migration_state: MigrationState | None = None
    """A move to another node, the one that goes on or the last one."""
    conditions: Conditions = ()
    """What is known beyond the phase: Ready, Paused."""
    volume_status: tuple[InstanceVolumeStatus, ...] = ()
    """Its volumes, as far as they have claims."""
    phase_transition_timestamps: tuple[PhaseTransition, ...] = ()
    """When it came to each phase."""


class VirtualMachineInstance(Object):
    """A VirtualMachine that runs, under the same name. It goes when the VM is stopped."""

    spec: InstanceSpec = InstanceSpec()
    """What it consists of."""
    status: InstanceStatus = InstanceStatus()
    """How it runs."""


class WholeMachine(Object):
    """A VirtualMachine with all that its spec has: to be kept in a backup, and made again from it."""

    spec: Mapping[str, Any] = {}
    """Its spec, whatever KubeVirt has in it."""
    status: MachineStatus = MachineStatus()
    """What is known of it."""

    @property
    def partly(self) -> VirtualMachine:
        """The same, as decisions read it."""
        return VirtualMachine(metadata=self.metadata, spec=msgspec.convert(self.spec, MachineSpec), status=self.status)


class WholeInstance(Object):
    """A VirtualMachineInstance with all that its spec has: to see what it costs."""

    spec: Mapping[str, Any] = {}
    """Its spec, whatever KubeVirt has in it."""
    status: InstanceStatus = InstanceStatus()
    """How it runs."""

    @property
    def partly(self) -> VirtualMachineInstance:
        """The same without the spec: who controls it, and how far it is."""
        return VirtualMachineInstance(metadata=self.metadata, status=self.status)


# --- where they live -------------------------------------------------------------------------------------------------

VIRTUAL_MACHINES: Final = Kind(
    GROUP,
    VERSION,
    "VirtualMachine",
    "virtualmachines",
    VirtualMachine,
    whole=False,
    short_names=("vm", "vms"),
    categories=("all",),
    columns=(
        AGE,
        Column("Status", ".status.printableStatus", description="What it does now."),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status", description="Whether it runs."),
    ),
)

INSTANCES: Final = Kind(
    GROUP,
    VERSION,
    "VirtualMachineInstance",
    "virtualmachineinstances",
    VirtualMachineInstance,
    whole=False,
    short_names=("vmi", "vmis"),
    categories=("all",),
    columns=(
        AGE,
        Column("Phase", ".status.phase", description="How it runs."),
        Column("NodeName", ".status.nodeName", description="The node that it runs on."),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status", description="Whether it runs."),
    ),
)

# The same kinds as MACHINES and INSTANCES, read whole: never watched.
WHOLE_VIRTUAL_MACHINES: Final = Kind(GROUP, VERSION, VIRTUAL_MACHINES.kind, VIRTUAL_MACHINES.plural, WholeMachine, whole=False)
WHOLE_INSTANCES: Final = Kind(GROUP, VERSION, INSTANCES.kind, INSTANCES.plural, WholeInstance, whole=False)
