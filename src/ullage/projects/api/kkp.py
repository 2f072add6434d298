"""The kinds of KKP that quotas are about: Project, Cluster, Seed and KubermaticSetting.

They belong to KKP: where it runs they are there already, on one machine we bring them along. Only what decisions need is
decoded; what is not named here is kept and never written. Projects, Seeds and the setting are on the master, Clusters on the
seed that runs their control plane. Clusters that were imported are objects of another kind, and never come here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value
from ullage.projects.api.amounts import GROUP, VERSION, ResourceDetails

# --- Project ---------------------------------------------------------------------------------------------------------


class ProjectSpec(Value):
    """What was said about the project."""

    name: str = ""
    """The name that people read. Everything else knows the project by the name of the object."""


class ProjectStatus(Value):
    """What is known of the project."""

    phase: str = ""
    """Inactive, Active or Terminating."""


class Project(Object):
    """A project: clusters, and the people who may use them."""

    spec: ProjectSpec = ProjectSpec()
    """What was said about the project."""
    status: ProjectStatus = ProjectStatus()
    """What is known of the project."""


PROJECTS: Final = Kind(
    GROUP,
    VERSION,
    "Project",
    "projects",
    Project,
    namespaced=False,
    whole=False,
    columns=(
        Column("HumanReadableName", ".spec.name", description="The name that people read."),
        Column("Status", ".status.phase", description="How far it is made, or taken away."),
        AGE,
    ),
)

# --- Cluster ---------------------------------------------------------------------------------------------------------


class CredentialReference(Value):
    """Names the Secret that a provider is asked with."""

    name: str = ""
    """The Secret."""
    namespace: str = ""
    """Its namespace; that of KKP where it is not said."""


class CloudAccount(Value):
    """What a provider is asked with, and for whom."""

    credentials_reference: CredentialReference | None = None
    """The Secret with the credential. Absent: none is named."""


class CloudSpec(Value):
    """Where the machines of the cluster are."""

    dc: str = ""
    """The datacenter."""
    provider_name: str = ""
    """The provider: aws, azure, kubevirt, and others; bringyourown and edge have no machines of ours."""
    alibaba: CloudAccount | None = None
    """The account at Alibaba."""
    aws: CloudAccount | None = None
    """The account at AWS."""
    azure: CloudAccount | None = None
    """The account at Azure."""
    digitalocean: CloudAccount | None = None
    """The account at DigitalOcean."""
    gcp: CloudAccount | None = None
    """The account at Google."""
    hetzner: CloudAccount | None = None
    """The account at Hetzner."""
    openstack: CloudAccount | None = None
    """The account at a cloud of OpenStack."""
    packet: CloudAccount | None = None
    """The account at Equinix, by the name that it had before."""


class ClusterSpec(Value):
    """What is wanted of the cluster."""

    human_readable_name: str = ""
    """The name that people read."""
    cloud: CloudSpec = CloudSpec()
    """Where its machines are."""
    pause: bool = False
    """Whether KKP's controllers leave it alone. Its machines count all the same."""


class ClusterStatus(Value):
    """What is known of the cluster."""

    namespace_name: str = ""
    """The namespace on the seed that its control plane is in."""
    phase: str = ""
    """Creating, Running, Terminating, and others: for people."""
    resource_usage: ResourceDetails | None = None
    """What its machines take. Absent: nobody has counted yet."""


class Cluster(Object):
    """A user cluster, on the seed that runs its control plane. The label `project-id` says whose it is."""

    spec: ClusterSpec = ClusterSpec()
    """What is wanted of the cluster."""
    status: ClusterStatus = ClusterStatus()
    """What is known of the cluster."""


CLUSTERS: Final = Kind(
    GROUP,
    VERSION,
    "Cluster",
    "clusters",
    Cluster,
    namespaced=False,
    whole=False,
    columns=(
        Column("HumanReadableName", ".spec.humanReadableName", description="The name that people read."),
        Column("Provider", ".spec.cloud.providerName", description="Where its machines are."),
        Column("Datacenter", ".spec.cloud.dc", description="In which datacenter they are."),
        Column("Phase", ".status.phase", description="How far it is made, or taken away."),
        Column("Paused", ".spec.pause", type="boolean", description="Whether KKP's controllers leave it alone."),
        AGE,
    ),
    # As KKP's webhook has it: with another provider the machines that are there would count for nobody.
    rules=(
        Rule(
            "self == oldSelf", "the provider of a cluster cannot be changed: make another one", path="spec.cloud.providerName"
        ),
    ),
)

# --- Seed ------------------------------------------------------------------------------------------------------------


class SecretReference(Value):
    """Names a Secret, and a key in it."""

    name: str = ""
    """The Secret."""
    namespace: str = ""
    """Its namespace; that of the Seed where it is not said."""
    field_path: str = ""
    """The key in it; `kubeconfig` where it is not said."""


class CloudAddress(Value):
    """Where a provider is, as far as sizes of machines depend on it."""

    region: str = ""
    """The region."""
    location: str = ""
    """The region, as Azure calls it."""
    auth_url: str = msgspec.field(default="", name="authURL")
    """The address of a cloud of OpenStack: its identity service."""


class DatacenterSpec(Value):
    """The provider of a datacenter. It has one."""

    alibaba: CloudAddress | None = None
    """Alibaba."""
    aws: CloudAddress | None = None
    """AWS."""
    azure: CloudAddress | None = None
    """Azure."""
    openstack: CloudAddress | None = None
    """A cloud of OpenStack."""


class Datacenter(Value):
    """Where machines of user clusters may be."""

    spec: DatacenterSpec = DatacenterSpec()
    """Its provider."""


class SeedSpec(Value):
    """How the seed is reached."""

    kubeconfig: SecretReference = SecretReference()
    """The Secret that has its kubeconfig."""
    location: str = ""
    """Where it is, for people."""
    datacenters: Mapping[str, Datacenter] = {}
    """Where machines of its user clusters may be."""


class SeedStatus(Value):
    """What is known of the seed."""

    phase: str = ""
    """Healthy, Unhealthy, Invalid, Terminating or Paused: for people."""
    clusters: int = 0
    """How many user clusters are on it."""


class Seed(Object):
    """A seed: a cluster that runs the control planes of user clusters."""

    spec: SeedSpec = SeedSpec()
    """How the seed is reached."""
    status: SeedStatus = SeedStatus()
    """What is known of the seed."""


SEEDS: Final = Kind(
    GROUP,
    VERSION,
    "Seed",
    "seeds",
    Seed,
    whole=False,
    columns=(
        Column("Clusters", ".status.clusters", type="integer", description="How many user clusters are on it."),
        Column("Location", ".spec.location", description="Where it is."),
        Column("Phase", ".status.phase", description="How it is."),
        AGE,
    ),
)

# --- KubermaticSetting -----------------------------------------------------------------------------------------------


class DefaultQuota(Value):
    """The quota of projects that have none of their own."""

    quota: ResourceDetails = ResourceDetails()
    """The most that the machines of each such project may take. Where all of it is absent or 0 there is no default."""


class SettingSpec(Value):
    """What is set for the whole installation."""

    default_quota: DefaultQuota | None = None
    """The quota of projects that have none of their own. Absent: they may use what they want."""


class KubermaticSetting(Object):
    """What administrators set for the whole installation. There is one, which is called `globalsettings`."""

    spec: SettingSpec = SettingSpec()
    """What is set for the whole installation."""


SETTINGS: Final = Kind(
    GROUP,
    VERSION,
    "KubermaticSetting",
    "kubermaticsettings",
    KubermaticSetting,
    namespaced=False,
    whole=False,
    status=False,
    columns=(AGE,),
)
