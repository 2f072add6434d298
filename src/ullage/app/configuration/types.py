"""The kind Configuration, `config.ullage.io/v1alpha1`: its fields, grouped by subject, with their docs and defaults.

`ullage config print` shows the docs as comments. The types refuse what is wrong by itself; what two fields say together is
checked by the command that uses them, as it is for flags. No field holds a secret: keys and certificates are named by file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from ullage.app import cluster_options, drivers, project_options
from ullage.app.commands.options import LONGEST_REQUEST, SHORTEST_REQUEST
from ullage.app.installer.names import CLUSTER, ControlPlaneRole
from ullage.headroom.settings import KUBEVIRT_NAMESPACES, Migration
from ullage.kube.kinds import Value
from ullage.names import LABEL_LIMIT, LABEL_PATTERN
from ullage.projects.machines.surge import STRICT, SurgeSetting
from ullage.projects.settings import UnknownSize

GROUP: Final = "config.ullage.io"
VERSION: Final = "v1alpha1"

ALLOWED: Final = "allowed"  # in `extra`: what a pattern allows, in words


def _text(pattern: str, allowed: str) -> Meta:
    return Meta(pattern=pattern, extra={ALLOWED: allowed})


AbsolutePath = Annotated[str, _text("^/", "an absolute path")]
Label = Annotated[str, Meta(pattern=LABEL_PATTERN, max_length=LABEL_LIMIT, extra={ALLOWED: "the name of a namespace"})]
Text = Annotated[str, _text("^[^\\s]+$", "a text without spaces")]
DriverName = Annotated[str, _text("^[^=\\s]+$", "the name of a driver, such as csi.example.com")]
DriverOwner = Annotated[
    str, _text("^(sidecar|(unix:(//)?)?/.+)$", "an absolute path of a socket, such as unix:///csi/csi.sock, or sidecar")
]
Socket = Annotated[str, _text("^(unix:(//)?)?/.+$", "an absolute path of a socket, such as unix:///csi/csi.sock")]
Service = Annotated[str, _text("^[a-z0-9-]+/[a-z0-9-]+$", "NAMESPACE/NAME")]
ServicePort = Annotated[str, _text("^[a-z0-9-]+/[a-z0-9-]+(:[0-9]{1,5})?$", "NAMESPACE/NAME or NAMESPACE/NAME:PORT")]
Url = Annotated[str, _text("^https://[^@\\s]+$", "something like https://host:9443")]
Size = Annotated[str, _text("^[0-9]+(\\.[0-9]+)?([KMGT]i?|k)?$", "an amount of bytes such as 256Mi")]
Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[float, Meta(ge=0)]
WriteSeconds = Annotated[float, Meta(ge=SHORTEST_REQUEST, le=LONGEST_REQUEST)]


class Section(Value, omit_defaults=False, forbid_unknown_fields=True):
    """A part of the Configuration."""


class HostPath(Section):
    """Snapshots of hostPath volumes, which are directories of a node. None are taken unless volumes are named."""

    volumes: tuple[AbsolutePath, ...] = ()
    """The directories below which hostPath volumes lie that may have snapshots. Restored volumes are made in the first."""
    snapshots: AbsolutePath | None = None
    """The directory in which the snapshots are kept."""
    node: Text | None = None
    """The name of the node. Where controllers on several nodes share this file, give each its own with --node."""
    single_node: bool = False
    """Volumes without node affinity are on this node: it is the only one, or all nodes share the directories."""


class Drivers(Section):
    """Whose snapshots Ullage takes. It touches the snapshots of these drivers, and no others."""

    csi: Mapping[DriverName, DriverOwner] = {}
    """CSI drivers by name. The value is the socket on which the controller calls the driver, or `sidecar` where
    `ullage csi-sidecar` calls it."""
    provision: tuple[DriverName, ...] = ()
    """Drivers of `csi` with a socket, or driver.longhorn.io, whose claims are filled from GA snapshots here: they have no
    external-provisioner."""
    longhorn: bool = False
    """Snapshots of volumes of driver.longhorn.io are taken here, through Longhorn's own objects: it has no csi-snapshotter.
    Whoever deletes a claim is told which snapshots go with it."""
    host_path: HostPath = HostPath()
    """Snapshots of hostPath volumes."""
    only_snapshotter: bool = False
    """No other snapshot controller runs in the cluster: answer for volumes of every driver."""
    observe_groups: bool = False
    """Another snapshotter answers for VolumeGroupSnapshots (snapshot-controller with CSIVolumeGroupSnapshot=true): Ullage
    leaves them alone."""
    audit_interval_seconds: Seconds = drivers.AUDIT_SECONDS
    """How often drivers are asked to list their snapshots. A snapshot that two lists in a row miss is lost. 0: never."""
    measure_interval_seconds: Seconds = drivers.MEASURE_SECONDS
    """How often hostPath volumes that have snapshots are measured. The others are measured 12 times less often. 0: never."""
    waiting_snapshots: Annotated[int, Meta(ge=1, le=10_000)] = drivers.WAITING_SNAPSHOTS
    """How many VolumeSnapshots of a namespace may wait for claims that do not exist or have no volume."""


class Engines(Section):
    """Snapshots inside volume engines."""

    manage: bool = False
    """Longhorn does not run in the cluster: Ullage brings, checks and looks after its kinds."""
    socket: AbsolutePath | None = None
    """The socket of a host of embedded engines, whose volumes' snapshots are looked after here. Implies `manage`."""


class KubeVirt(Section):
    """The KubeVirt whose launcher pods VMs are charged with."""

    version: Text = "auto"
    """`auto` takes what the KubeVirt object says. Others are a version such as v1.4.0, or `seed`: the formula of the design."""
    overhead_ratio: float | None = None
    """By which KubeVirt multiplies the memory around a guest, where the KubeVirt object sets no
    additionalGuestMemoryOverheadRatio. null: 1."""
    namespaces: Annotated[tuple[Label, ...], Meta(min_length=1)] = KUBEVIRT_NAMESPACES
    """Where KubeVirt runs. What its service accounts there say about the status of VMs is believed."""


class VirtualMachines(Section):
    """Backups, restores and migrations of virtual machines, and what machines cost."""

    manage_backups: bool = False
    """Harvester does not run in the cluster: Ullage brings, checks and makes VirtualMachineBackups."""
    manage_restores: bool = False
    """Harvester does not run in the cluster: Ullage brings, checks and performs VirtualMachineRestores."""
    migration: Migration = "reserve"
    """Where the room for live migrations comes from. `reserve`: the reserve of the namespace's quota. `scale-quota`: the core
    ResourceQuota that Rancher made is raised while instances migrate."""
    kubevirt: KubeVirt = KubeVirt()
    """The KubeVirt whose launcher pods VMs are charged with."""


class Projects(Section):
    """Quotas of projects over many clusters, in processes with the role `master` or `seed`."""

    surge: SurgeSetting = STRICT
    """Machines that replace others where a project's quota is full. `strict` refuses them. `replace` lets them pass the limit
    by what they replace."""
    unknown_size: UnknownSize = "refuse"
    """Machines of unknown size, where their project has a quota: `refuse` them, or `allow` them uncounted."""
    keep_vanished_seconds: Seconds = project_options.KEEP_SECONDS
    """For how long a Machine that went counts on, where its provider cannot be asked whether its server is gone."""
    seed_namespace: Label = project_options.SEED_NAMESPACE
    """The namespace of the master's Seeds and of the Secrets to reach them. On a seed, the namespace of the Secrets that
    providers are asked with."""


class UserClusters(Section):
    """What a seed takes from each user cluster. The administrator of a user cluster may mean harm."""

    memory: Size = cluster_options.MEMORY
    """How much memory the Machines, MachineSets and MachineDeployments of one user cluster may take. A larger cluster stays as
    it was last seen."""
    rate: Size = cluster_options.RATE
    """How much is read from one user cluster in a second: as it is in memory, and 8Ki more for each object."""
    reviews: Annotated[float, Meta(ge=1, le=cluster_options.MOST_REVIEWS)] = cluster_options.REVIEWS
    """How many reviews are answered for one user cluster in a second, and ten times as many at once."""
    timeout_seconds: WriteSeconds = drivers.USER_CLUSTER_SECONDS
    """How long the API servers of user clusters, with their etcd, may take to store a write."""


class ApiServer(Section):
    """How long the cluster's own API server may take to store a write. Room for a request is held for so long."""

    request_timeout_seconds: WriteSeconds = drivers.REQUEST_SECONDS
    """How long the API server works at a write: 34 s, or its own --request-timeout where that is shorter."""
    etcd_timeout_seconds: Annotated[float, Meta(ge=0, le=LONGEST_REQUEST)] = drivers.ETCD_SECONDS
    """How long etcd may take after the API server has given a write up: 5 s and two election time-outs, which is 7 s by
    default, and 15 s with --election-timeout=5000."""


class ControllerMetrics(Section):
    """Where /metrics, /healthz and /readyz are served."""

    port: Port = 9402
    """The port. 0 takes any free port."""
    bind: Text = "127.0.0.1"
    """The address."""


class Controller(Section):
    """The process `ullage controller`."""

    leader_elect: bool = True
    """Work only while holding the lease, so that several may run."""
    metrics: ControllerMetrics = ControllerMetrics()
    """Where /metrics, /healthz and /readyz are served."""


class Webhook(Section):
    """The process `ullage webhook`."""

    port: Port = 9443
    """The port to listen on. 0 takes any free port."""
    bind: Text = "127.0.0.1"
    """The address to listen on."""
    service: ServicePort | None = None
    """The Service through which API servers reach the webhook, in a cluster."""
    url: Url | None = None
    """The URL at which API servers reach it, instead of a Service. null, without a Service: the address and port."""
    url_elsewhere: Url | None = None
    """The URL at which the API servers of user clusters reach it, on a seed. null: as those of the seed do."""
    client_ca_file: AbsolutePath | None = msgspec.field(name="clientCAFile", default=None)
    """Believe only API servers that show a certificate of the authorities in this PEM file. Goes with `clientNames`."""
    client_names: tuple[Text, ...] = ()
    """The common or DNS names in the certificates that API servers show."""
    drain_seconds: Seconds = 5.0
    """How long clients are told to go elsewhere before the process stops."""


class Api(Section):
    """The process `ullage api`."""

    port: Port = 8443
    """The port to listen on. 0 takes any free port."""
    bind: Text = "127.0.0.1"
    """The address to listen on."""
    service: Service | None = None
    """The Service through which the API is reached, in a cluster."""
    hostnames: tuple[Text, ...] = ()
    """Further names or addresses that the certificate is for."""
    tls_certificate_file: AbsolutePath | None = None
    """A certificate of yours with its chain, PEM, instead of one that Ullage issues. It is read again when it changes."""
    tls_key_file: AbsolutePath | None = None
    """The file with the key of that certificate."""
    client_files: AbsolutePath | None = None
    """A directory into which is written what clients on this machine need: api-ca.crt, and the address in api-url."""
    audiences: tuple[Text, ...] = ()
    """The audiences that a token must be meant for. Empty: the cluster's API server."""
    drain_seconds: Seconds = 5.0
    """How long clients are told to go elsewhere before the process stops."""


class SidecarMetrics(Section):
    """Where /metrics, /healthz and /readyz are served."""

    port: Port = 9403
    """The port. 0 takes any free port."""
    bind: Text = "127.0.0.1"
    """The address."""


class CsiSidecar(Section):
    """The process `ullage csi-sidecar`."""

    address: Socket | None = None
    """The driver's socket. The sidecar needs it, here or as --csi-address."""
    provision: bool = False
    """Fill claims from GA snapshots too: no external-provisioner runs beside this driver."""
    leader_elect: bool = False
    """Work only while holding a lease: where the driver's controller runs more than once."""
    lease_namespace: Label | None = None
    """The namespace of the lease. null: the namespace that the sidecar runs in."""
    metrics: SidecarMetrics = SidecarMetrics()
    """Where /metrics, /healthz and /readyz are served."""


class Install(Section):
    """Which rights on Secrets `ullage install` gives."""

    secrets_of_drivers: tuple[DriverName, ...] = ()
    """Rights on Secrets for the classes of these drivers alone. Empty: for those of all classes."""
    all_secrets: bool = False
    """The right to read every Secret: for classes that choose the namespace by a template."""


class Spec(Section):
    """What is set."""

    roles: Annotated[tuple[ControlPlaneRole, ...], Meta(min_length=1)] = (CLUSTER,)
    """What the processes are there for. `cluster`: quotas, snapshots and VMs of this cluster. `master` and `seed`: quotas of
    projects over many clusters. `user-cluster`: tell the users of a user cluster how they stand."""
    drivers: Drivers = Drivers()
    """Whose snapshots Ullage takes."""
    engines: Engines = Engines()
    """Snapshots inside volume engines."""
    virtual_machines: VirtualMachines = VirtualMachines()
    """Backups, restores and migrations of virtual machines, and what machines cost."""
    projects: Projects = Projects()
    """Quotas of projects over many clusters."""
    user_clusters: UserClusters = UserClusters()
    """What a seed takes from each user cluster."""
    api_server: ApiServer = ApiServer()
    """How long the cluster's own API server may take to store a write."""
    controller: Controller = Controller()
    """The process `ullage controller`."""
    webhook: Webhook = Webhook()
    """The process `ullage webhook`."""
    api: Api = Api()
    """The process `ullage api`."""
    csi_sidecar: CsiSidecar = CsiSidecar()
    """The process `ullage csi-sidecar`."""
    install: Install = Install()
    """Which rights on Secrets `ullage install` gives."""


class Configuration(Section):
    """What is set for all processes of an installation. Each process takes the part that is about it."""

    api_version: Literal["config.ullage.io/v1alpha1"]
    """The version of this format."""
    kind: Literal["Configuration"]
    """The kind of this document."""
    spec: Spec = Spec()
    """What is set."""


def configuration(spec: Spec) -> Configuration:
    return Configuration(api_version="config.ullage.io/v1alpha1", kind="Configuration", spec=spec)


DEFAULT: Final = configuration(Spec())
