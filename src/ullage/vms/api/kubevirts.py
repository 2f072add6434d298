"""KubeVirt of `kubevirt.io/v1`: the one object that KubeVirt is configured with. Read are how it migrates, and what sizes pods.

It belongs to KubeVirt, as machines do: see `machines`. What is not said there has KubeVirt's own default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from ullage.kube.kinds import AGE, OPEN, Column, Kind, Object, Value
from ullage.vms.api.machines import GROUP, VERSION


class MigrationConfiguration(Value):
    """How instances move to other nodes, all of them."""

    parallel_migrations_per_cluster: int | None = None
    """How many move at once; 5 where nothing is said."""
    parallel_outbound_migrations_per_node: int | None = None
    """How many leave one node at once; 2 where nothing is said."""
    bandwidth_per_migration: str | int | None = None
    """What each may send, in bytes in a second; 0, which is the default: as much as there is."""
    completion_timeout_per_gib: int | None = msgspec.field(default=None, name="completionTimeoutPerGiB")
    """Seconds for each GiB of memory after which a move is given up; 150 where nothing is said."""
    progress_timeout: int | None = None
    """Seconds without progress after which a move is given up; 150 where nothing is said."""
    allow_auto_converge: bool | None = None
    """Whether the guest is slowed down where it writes faster than can be sent."""
    allow_post_copy: bool | None = None
    """Whether the guest may run on the new node before all of its memory is there."""
    allow_workload_disruption: bool | None = None
    """Whether the guest may be paused so that the move comes to an end."""
    disable_tls: bool | None = msgspec.field(default=None, name="disableTLS")
    """Whether what is sent is sent in clear."""
    network: str | None = None
    """The network that it is sent over, beside that of the pods."""
    node_drain_taint_key: str | None = None
    """The taint that has a node emptied; kubevirt.io/drain where nothing is said."""
    unsafe_migration_override: bool | None = None
    """Whether what is not known to be safe is done nevertheless."""
    match_selinux_level: bool | None = msgspec.field(default=None, name="matchSELinuxLevelOnMigration")
    """Whether the new pod has the level of the old one."""


class ContainerResources(Value):
    """Limits and requests of a container."""

    limits: Mapping[str, str | int] = {}
    """By resource."""
    requests: Mapping[str, str | int] = {}
    """By resource."""


class SupportContainer(Value):
    """What a container beside the guest gets in place of KubeVirt's own numbers."""

    type: str = ""
    """container-disk, guest-console-log, sidecar, virtiofs and others."""
    resources: ContainerResources = ContainerResources()
    """Limits and requests; a resource that is absent keeps its number."""


class BindingPlugin(Value):
    """A network binding plugin."""

    sidecar_image: str = ""
    """The image of a sidecar that runs beside the guest."""
    compute_resource_overhead: ContainerResources | None = None
    """What the plugin takes of the container of the guest."""


class NetworkConfiguration(Value):
    """How guests are connected."""

    binding: Mapping[str, BindingPlugin] = {}
    """The plugins, by name."""


class DeveloperConfiguration(Value):
    """Overcommitment, and what is switched on."""

    memory_overcommit: int | None = None
    """Per cent: a guest asks for its memory divided by it; 100 where nothing is said."""
    cpu_allocation_ratio: int | None = None
    """A guest asks for one CPU for so many of its own; 10 where nothing is said."""
    feature_gates: tuple[str, ...] = ()
    """What is switched on."""


class MachineOptions(Value):
    """What holds for all machines."""

    disable_serial_console_log: Annotated[Mapping[str, Any] | None, OPEN] = None
    """Present: what guests write to the serial console is not logged."""


class ArchitectureConfiguration(Value):
    """Architectures of CPUs."""

    default_architecture: str = ""
    """That of machines which do not say theirs."""


class KubeVirtConfiguration(Value):
    """What an administrator sets."""

    eviction_strategy: str | None = None
    """What becomes of instances that do not say so themselves when their node is drained."""
    migrations: MigrationConfiguration | None = None
    """How instances move to other nodes."""
    overhead_ratio: str = msgspec.field(default="", name="additionalGuestMemoryOverheadRatio")
    """The memory around a guest is multiplied by it; 1 where nothing is said."""
    developer_configuration: DeveloperConfiguration | None = None
    """Overcommitment, and what is switched on."""
    support_container_resources: tuple[SupportContainer, ...] = ()
    """What containers beside the guest get."""
    virtual_machine_options: MachineOptions | None = None
    """What holds for all machines."""
    network: NetworkConfiguration | None = None
    """How guests are connected."""
    architecture_configuration: ArchitectureConfiguration | None = None
    """Architectures of CPUs."""
    auto_cpu_limit_namespaces: Annotated[Mapping[str, Any] | None, OPEN] = msgspec.field(
        default=None, name="autoCPULimitNamespaceLabelSelector"
    )
    """Labels of the namespaces in which guests without a CPU limit get one."""


class KubeVirtSpec(Value):
    """What is wanted of KubeVirt."""

    configuration: KubeVirtConfiguration = KubeVirtConfiguration()
    """What an administrator sets."""


class KubeVirtStatus(Value):
    """What is known of KubeVirt."""

    phase: str = ""
    """Deploying, Deployed, Deleting or Deleted."""
    observed_version: str = msgspec.field(default="", name="observedKubeVirtVersion")
    """The version that runs."""


class KubeVirt(Object):
    """KubeVirt itself: there is one in a cluster."""

    spec: KubeVirtSpec = KubeVirtSpec()
    """What is wanted of KubeVirt."""
    status: KubeVirtStatus = KubeVirtStatus()
    """What is known of KubeVirt."""


KUBEVIRTS: Final = Kind(
    GROUP,
    VERSION,
    "KubeVirt",
    "kubevirts",
    KubeVirt,
    whole=False,
    short_names=("kv", "kvs"),
    categories=("all",),
    columns=(AGE, Column("Phase", ".status.phase", description="How far it is deployed.")),
)
