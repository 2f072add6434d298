"""The kinds of `cluster.k8s.io/v1alpha1`, in user clusters: Machine, MachineSet and MachineDeployment.

They belong to machine-controller. Only what decisions need is decoded, and whoever administers a user cluster can write
anything into them, and into their definitions: what has no fixed shape (`providerSpec.value`) is read as it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ullage.kube.kinds import AGE, Column, Kind, Object, Value

GROUP: Final = "cluster.k8s.io"
VERSION: Final = "v1alpha1"
NAMESPACE: Final = "kube-system"  # where they are in each user cluster

# The annotations that decisions look at. Others are not held: whoever administers the cluster writes as many as he likes.
MACHINE_ANNOTATIONS: Final = ("ullage.io/takes", "ullage.io/takes-signature")
SET_ANNOTATIONS: Final = ("machinedeployment.clusters.k8s.io/revision",)
DEPLOYMENT_ANNOTATIONS: Final = ("ullage.io/enforce-early",)

# --- Machine ---------------------------------------------------------------------------------------------------------


class ProviderSpec(Value):
    """What the provider is asked for."""

    value: Any = None
    """`cloudProvider` says whom, `cloudProviderSpec` what for, in the provider's own words."""


class MachineSpec(Value):
    """What is wanted of a machine. It cannot be changed."""

    provider_spec: ProviderSpec = ProviderSpec()
    """What the provider is asked for."""
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    """How the provider knows the machine."""


class NodeReference(Value):
    """Names a Node."""

    name: str = ""
    """The Node."""


class MachineStatus(Value):
    """What is known of a machine."""

    node_ref: NodeReference | None = None
    """The Node that it became. Absent: none yet."""
    error_reason: str | None = None
    """Why it does not become one, in one word."""
    error_message: str | None = None
    """Why it does not become one, in a sentence."""


class Machine(Object):
    """A machine of a user cluster: a server at a provider, and the Node that it becomes."""

    spec: MachineSpec = MachineSpec()
    """What is wanted of the machine."""
    status: MachineStatus = MachineStatus()
    """What is known of the machine."""


MACHINES: Final = Kind(
    GROUP,
    VERSION,
    "Machine",
    "machines",
    Machine,
    whole=False,
    status=False,
    kept_annotations=MACHINE_ANNOTATIONS,
    short_names=("ma",),
    columns=(
        Column("Provider", ".spec.providerSpec.value.cloudProvider", description="Who is asked for it."),
        Column("Node", ".status.nodeRef.name", description="The Node that it became."),
        AGE,
    ),
)

# --- MachineSet ------------------------------------------------------------------------------------------------------


class MachineTemplate(Value):
    """What each machine is made from."""

    spec: MachineSpec = MachineSpec()
    """What is wanted of each machine."""


class Selector(Value):
    """Which machines are meant, by their labels."""

    match_labels: Mapping[str, str] = {}
    """The labels that they have, all of them."""


class MachineSetSpec(Value):
    """What is wanted of a set."""

    replicas: int | None = None
    """How many machines there are to be; 1 where it is not said."""
    selector: Selector = Selector()
    """The machines that belong to it."""
    template: MachineTemplate = MachineTemplate()
    """What each of them is made from."""


class MachineSetStatus(Value):
    """What is known of a set."""

    replicas: int = 0
    """How many machines there are."""
    fully_labeled_replicas: int = 0
    """How many of them have all labels of the template."""
    ready_replicas: int = 0
    """How many of them are ready Nodes."""
    available_replicas: int = 0
    """How many of them have been ready Nodes for spec.minReadySeconds."""
    observed_generation: int = 0
    """The metadata.generation that all of this was said about."""


class MachineSet(Object):
    """So many machines of one make: one revision of a MachineDeployment."""

    spec: MachineSetSpec = MachineSetSpec()
    """What is wanted of the set."""
    status: MachineSetStatus = MachineSetStatus()
    """What is known of the set."""


MACHINE_SETS: Final = Kind(
    GROUP,
    VERSION,
    "MachineSet",
    "machinesets",
    MachineSet,
    whole=False,
    kept_annotations=SET_ANNOTATIONS,
    short_names=("ms",),
    columns=(
        Column("Replicas", ".spec.replicas", type="integer", description="How many there are to be."),
        Column("Ready", ".status.readyReplicas", type="integer", description="How many are ready Nodes."),
        AGE,
    ),
)

# --- MachineDeployment -----------------------------------------------------------------------------------------------


class RollingUpdate(Value):
    """How far it may go from the number of machines that is wanted while they are replaced."""

    max_unavailable: int | str | None = None
    """How many may be missing: a number, or percent; 0 where it is not said."""
    max_surge: int | str | None = None
    """How many more there may be: a number, or percent; 1 where it is not said."""


class Strategy(Value):
    """How machines are replaced."""

    type: str = ""
    """RollingUpdate, or OnDelete: only those that somebody deletes."""
    rolling_update: RollingUpdate | None = None
    """How far it may go from the number that is wanted."""


class MachineDeploymentSpec(Value):
    """What is wanted of a deployment."""

    replicas: int | None = None
    """How many machines there are to be; 1 where it is not said."""
    selector: Selector = Selector()
    """The machines that belong to it."""
    template: MachineTemplate = MachineTemplate()
    """What each of them is made from. Where it changes they are replaced."""
    strategy: Strategy | None = None
    """How they are replaced; by a rolling update where it is not said."""
    paused: bool = False
    """Whether nothing is done about it for now."""


class MachineDeploymentStatus(Value):
    """What is known of a deployment."""

    observed_generation: int = 0
    """The metadata.generation that all of this was said about."""
    replicas: int = 0
    """How many machines there are."""
    updated_replicas: int = 0
    """How many of them are made from the template of now."""
    ready_replicas: int = 0
    """How many of them are ready Nodes."""


class MachineDeployment(Object):
    """So many machines of one make, which are replaced when that changes."""

    spec: MachineDeploymentSpec = MachineDeploymentSpec()
    """What is wanted of the deployment."""
    status: MachineDeploymentStatus = MachineDeploymentStatus()
    """What is known of the deployment."""


MACHINE_DEPLOYMENTS: Final = Kind(
    GROUP,
    VERSION,
    "MachineDeployment",
    "machinedeployments",
    MachineDeployment,
    whole=False,
    kept_annotations=DEPLOYMENT_ANNOTATIONS,
    short_names=("md",),
    columns=(
        Column("Replicas", ".spec.replicas", type="integer", description="How many there are to be."),
        Column("Ready", ".status.readyReplicas", type="integer", description="How many are ready Nodes."),
        AGE,
    ),
)
