"""The quota of a project for its members, and what it would say to more machines.

A member has the right to `get` the quota of his project by its name, and no other. That is what is asked for, and whoever is no
member learns nothing, not even whether there is such a project.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from ullage.errors import BadInput
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Value
from ullage.kube.routes import Declined, Permission, Reply, Route, RouteCall
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.catalogues import CATALOGUES, MachineCatalogue
from ullage.projects.api.kkp import PROJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.calculation import Replicas, calculate
from ullage.projects.names import CPU, MEMORY, STORAGE, quota_name
from ullage.projects.quota import amounts_of, is_counted, limits_of
from ullage.projects.routes.freshness import NOT_COUNTED, usage_warnings
from ullage.projects.routes.items import Nothing, QuotaItem, QuotaNumbers, item_of, limit_numbers, usage_numbers
from ullage.projects.routes.numbers import amount_of
from ullage.projects.routes.provider_sizes import (
    PROVIDERS,
    AlibabaSize,
    AnexiaSize,
    AzureSize,
    CpuMemorySize,
    DirectorSize,
    DropletSize,
    HetznerSize,
    KubevirtSize,
    SocketSize,
    VsphereSize,
    provider_size,
)
from ullage.projects.sizes.codec import read_flavour
from ullage.quantity import Quantity

ACCESS: Final = Permission(verb="get", kind=PROJECT_QUOTAS, name=quota_name("{id}"), words="see the quota of this project")
USAGE_FIELD: Final = "status.globalUsage"
CORE_PLACES: Final = 3
SHOWN: Final = 64  # characters of what cannot be used
NO_FLAVOUR: Final = (
    "no MachineCatalogue of this cluster has a size for it. Catalogues are on the seeds: give size.cpu in cores, size.memory"
    " and diskSizeGB in GB of 2^30 bytes; `kubectl get machinecatalogues -o yaml` on a seed shows the sizes of its flavours"
)
MANY_FLAVOURS: Final = (
    "its size is not the same at all providers and places: give size.cpu in cores, size.memory and diskSizeGB in GB of 2^30"
    " bytes"
)
ONE_SIZE: Final = "one size alone is allowed: `size`, `flavor`, or the size of one provider"
_CORES: Final = msgspec.Meta(extra_json_schema={"examples": [2]})
_GB: Final = msgspec.Meta(extra_json_schema={"examples": [4]})


class MachineSize(Value, forbid_unknown_fields=True):
    """What one machine takes beside its disk."""

    cpu: Annotated[int | float, _CORES] = 0
    """Processors; parts of them have three places at most."""
    memory: Annotated[int | float, _GB] = 0
    """Memory in GB of 2^30 bytes."""


class MachineReplicas(Value, forbid_unknown_fields=True):
    """So many machines of one size."""

    replicas: int
    """How many."""
    disk_size_gb: int | float = msgspec.field(default=0, name="diskSizeGB")
    """The disk of each in GB of 2^30 bytes."""
    size: MachineSize = MachineSize()
    """What each takes beside its disk."""
    flavor: str = ""
    """The name of a flavour, where a MachineCatalogue of this cluster has its size."""
    alibaba_instance_type: AlibabaSize | None = None
    """The size at Alibaba."""
    anexia_node_spec: AnexiaSize | None = None
    """The size at Anexia."""
    aws_size: CpuMemorySize | None = None
    """The size at AWS; memory in GB."""
    azure_size: AzureSize | None = None
    """The size at Azure."""
    do_size: DropletSize | None = None
    """The size at DigitalOcean."""
    gcp_size: CpuMemorySize | None = None
    """The size at Google; memory in MB."""
    hetzner_size: HetznerSize | None = None
    """The size at Hetzner."""
    kubevirt_node_size: KubevirtSize | None = None
    """The size in KubeVirt."""
    nutanix_node_spec: SocketSize | None = None
    """The size at Nutanix."""
    openstack_size: DropletSize | None = None
    """The size in OpenStack."""
    vm_director_node_spec: DirectorSize | None = None
    """The size in VMware Cloud Director."""
    v_sphere_node_spec: VsphereSize | None = None
    """The size in vSphere."""


_PROVIDER_FIELDS: Final = tuple(
    (one.name, one.encode_name) for one in msgspec.structs.fields(MachineReplicas) if one.encode_name in PROVIDERS
)


class CalculationRequest(MachineReplicas, forbid_unknown_fields=True):
    """Machines that would be added."""

    replaced_resources: MachineReplicas | None = None
    """Machines that would go for them: what these take is taken off first."""


class CalculatedQuota(Value):
    """What would be used."""

    resource_quota: QuotaNumbers
    """The most that may be used."""
    calculated_quota: QuotaNumbers
    """What would be used."""
    message: str = ""
    """A line for each resource of which that is too much. Absent: all fits."""


class ProjectQuota:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def show(self, call: RouteCall) -> Reply:
        quota = await self._quota(call)
        if quota is None:
            return Reply(Nothing())
        return Reply(item_of(quota, await self._client.find(PROJECTS, call.names["id"])), usage_warnings(quota))

    async def calculate(self, call: RouteCall) -> Reply:
        given: CalculationRequest = call.body
        quota = await self._quota(call)
        try:
            replaced = given.replaced_resources
            found = calculate(
                None if quota is None else limits_of(quota.spec.quota),
                Amounts() if quota is None else _used(quota),
                added=await self._replicas(given),
                replaced=None if replaced is None else await self._replicas(replaced, field="replacedResources."),
            )
        except BadInput as error:
            raise Declined.invalid(error.where, f"{error.given}: {error.problem}") from None
        if quota is None or found is None:
            return Reply(Nothing())
        usage = {resource: found.usage[resource] for resource in (CPU, MEMORY, STORAGE)}
        return Reply(
            CalculatedQuota(
                resource_quota=limit_numbers(found.quota), calculated_quota=usage_numbers(usage), message=found.message
            ),
            usage_warnings(quota),
        )

    async def _replicas(self, given: MachineReplicas, *, field: str = "") -> Replicas:
        size = _size(given, field)
        if size is None:
            disk = amount_of(STORAGE, given.disk_size_gb, field=f"{field}diskSizeGB")
            size = flavour_size(given.flavor, await self._catalogues(), disk=disk, field=f"{field}flavor")
        return Replicas(given.replicas, size)

    async def _catalogues(self) -> Iterable[MachineCatalogue]:
        """None on a master alone, where the kind is not served, and before `ullage install` brought the right to list it."""
        try:
            return (await self._client.list(CATALOGUES)).items
        except (NotFound, Forbidden):
            return ()

    async def _quota(self, call: RouteCall) -> ResourceQuota | None:
        """One of that name which is another's is nobody's here: who made it was not asked for its right name."""
        project = call.names["id"]
        found = await self._client.find(PROJECT_QUOTAS, quota_name(project))
        return found if found is not None and found.spec.subject.name == project else None


def _used(quota: ResourceQuota) -> Amounts:
    """What nobody has counted is not nothing: with that everything would fit."""
    used = quota.status.global_usage
    try:
        if is_counted(used):
            return amounts_of(used, field=USAGE_FIELD)
        problem = f"{USAGE_FIELD}: {NOT_COUNTED}"
    except BadAmount as error:
        problem = str(error)
    message = f"ResourceQuota {quota.metadata.name}: {problem}. Next: try again when the seeds have been counted"
    raise Declined(503, "ServiceUnavailable", message, retry_after=5)


def _size(given: MachineReplicas, field: str) -> Amounts | None:
    """What one machine takes; None where only a flavour tells. Raises BadInput."""
    named = [(shown, size) for name, shown in _PROVIDER_FIELDS if (size := getattr(given, name)) is not None]
    if len(named) + bool(given.flavor) + (given.size != MachineSize()) > 1:
        known = " and ".join([*(shown for shown, _ in named), *(["flavor"] if given.flavor else [])])
        raise BadInput(f"{field}replicas", known, ONE_SIZE)
    for name, size in named:
        return provider_size(name, size, disk=given.disk_size_gb, field=field)
    if given.flavor:
        return None
    return Amounts(
        {
            CPU: amount_of(CPU, given.size.cpu, field=f"{field}size.cpu", places=CORE_PLACES),
            MEMORY: amount_of(MEMORY, given.size.memory, field=f"{field}size.memory"),
            STORAGE: amount_of(STORAGE, given.disk_size_gb, field=f"{field}diskSizeGB"),
        }
    )


def flavour_size(flavour: str, catalogues: Iterable[MachineCatalogue], *, disk: Quantity, field: str) -> Amounts:
    """The one size that catalogues have for a flavour; `disk`, unless it is 0, takes the place of its disk. Raises BadInput."""
    lines = {line for one in catalogues if (line := one.data.flavours.get(flavour)) is not None}
    if len(lines) != 1:
        raise BadInput(field, flavour[:SHOWN], MANY_FLAVOURS if lines else NO_FLAVOUR)
    found, nothing = read_flavour(lines.pop(), field), Quantity(0)
    storage = disk if disk.nanos else found.storage or nothing
    return Amounts({CPU: found.cpu or nothing, MEMORY: found.memory or nothing, STORAGE: storage})


def membership_routes(client: Client) -> Iterable[Route]:
    actions = ProjectQuota(client)
    yield Route(
        name="get-project-quota",
        method="GET",
        paths=("/api/v2/projects/{id}/quota",),
        access=ACCESS,
        answer=actions.show,
        reply=QuotaItem,
        summary="Show the quota of a project",
        description="For the members of a project. Without a quota it is an empty object. Where the usage is not of now "
        "there is a header `Warning`.",
    )
    yield Route(
        name="calculate-project-quota",
        method="POST",
        paths=("/api/v2/projects/{id}/quotacalculation",),
        access=ACCESS,
        answer=actions.calculate,
        body=CalculationRequest,
        reply=CalculatedQuota,
        invalid=400,
        summary="Calculate what a project would use",
        description="What a project would use with so many machines more, and whether its quota allows that. It promises "
        "nothing: machines are admitted when they are made. Without a quota it is an empty object. A GB is 2^30 bytes. "
        "Where the usage is not of now there is a header `Warning`.",
        refusals={
            400: "What was sent is wrong: the Status names the field.",
            503: "What the project uses is not known yet.",
        },
    )
