"""KubeVirt of `kubevirt.io/v1`: the one object that KubeVirt is configured with. What is read of it here is how it migrates.

It belongs to KubeVirt, as machines do: see `machines`. What is not said there has KubeVirt's own default.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ullage.kube.kinds import AGE, Column, Kind, Object, Value
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


class KubeVirtConfiguration(Value):
    """What an administrator sets."""

    eviction_strategy: str | None = None
    """What becomes of instances that do not say so themselves when their node is drained."""
    migrations: MigrationConfiguration | None = None
    """How instances move to other nodes."""


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
