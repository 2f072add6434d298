"""The actions on quotas of snapshot space, in Harvester's spelling and in that of its proposal.

Whoever may update the quota object of the namespace may use them. The writes are done with our own rights: an update makes the
object where it is missing, for which `update` alone would not do, and a caller needs no right on namespaces or virtual
machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Value
from ullage.kube.routes import Declined, Permission, Reply, Route, RouteCall
from ullage.kube.slices import Part, Wiring, Write
from ullage.space.api import HARVESTER_QUOTAS, NAME
from ullage.space.limit_setting import Limited, below_usage, remove_limit, set_limit
from ullage.space.quantities import BadSize, parse_size
from ullage.vms.api.machines import VIRTUAL_MACHINES

MANAGER: Final = "ullage-api"
FIELD: Final = "totalSnapshotSizeQuota"
ACCESS: Final = Permission(verb="update", kind=HARVESTER_QUOTAS, name=NAME, words="update resource quota")
NAMESPACE_PATHS: Final = ("/v1/harvester/namespaces/{namespace}", "/v1/harvester/namespace/{namespace}")
VM_PATHS: Final = ("/v1/harvester/kubevirt.io.virtualmachines/{namespace}/{name}",)
UPDATE: Final = ("updateResourceQuota",)
DELETE: Final = ("deleteResourceQuota", "deleteResourceQuotaAction")
_SIZE: Final = msgspec.Meta(extra_json_schema={"examples": ["10Gi"]})


class SnapshotSizeQuota(Value):
    """What is to be set."""

    total_snapshot_size_quota: Annotated[int | str, _SIZE]
    """The most that snapshots may take together: a size such as `10Gi`, or a number of bytes. 0: no limit, unless the quota has
    the annotation `ullage.io/allow-zero: "true"`."""


class QuotaActions:
    """What the routes do."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def update(self, call: RouteCall) -> Reply:
        limited = _limited(call)
        try:
            size = parse_size(str(call.body.total_snapshot_size_quota), field=FIELD)
        except BadSize as error:
            raise Declined.invalid(error.field, error.problem) from None
        await self._check(limited, for_update=True)
        quota = await set_limit(self._client, limited, size, manager=MANAGER)
        warning = below_usage(quota, limited) if quota is not None else None
        return Reply(warnings=(warning,) if warning else ())

    async def delete(self, call: RouteCall) -> Reply:
        limited = _limited(call)
        await self._check(limited, for_update=False)
        await remove_limit(self._client, limited, manager=MANAGER)
        return Reply()

    async def _check(self, limited: Limited, *, for_update: bool) -> None:
        """Raises Declined where there is no such namespace or virtual machine."""
        namespace = await self._client.find(NAMESPACES, limited.namespace)
        if namespace is None:
            raise Declined.missing(NAMESPACES, limited.namespace)
        if for_update and namespace.metadata.deletion_timestamp:
            raise Declined.conflict(f"namespace {limited.namespace} is being deleted: no limit can be set in it")
        if limited.vm and not await self._has_vm(limited):
            raise Declined.missing(VIRTUAL_MACHINES, limited.vm, namespace=limited.namespace)

    async def _has_vm(self, limited: Limited) -> bool:
        try:
            return await self._client.find(VIRTUAL_MACHINES, limited.vm, limited.namespace) is not None
        except NotFound:  # there is no such kind: KubeVirt is not here
            return False


def _limited(call: RouteCall) -> Limited:
    return Limited(call.names["namespace"], call.names.get("name", ""))


def quota_routes(wiring: Wiring) -> Iterable[Route]:
    actions = QuotaActions(wiring.client)
    about = {409: "The namespace is being deleted, or others write the quota all the time."}
    for paths, of_what, name, code in (
        (NAMESPACE_PATHS, "all snapshots of a namespace", "namespace", 200),
        (VM_PATHS, "all snapshots of a virtual machine", "vm", 204),
    ):
        shared: dict[str, Any] = {"method": "POST", "paths": paths, "access": ACCESS, "code": code, "refusals": about}
        yield Route(
            name=f"update-{name}-quota",
            actions=UPDATE,
            answer=actions.update,
            body=SnapshotSizeQuota,
            summary=f"Limit {of_what}",
            description=f"Sets how much {of_what} may take together. A limit below present use is accepted, with a header "
            "`Warning`; nothing is deleted.",
            **shared,
        )
        yield Route(
            name=f"delete-{name}-quota",
            actions=DELETE,
            answer=actions.delete,
            summary=f"Remove the limit on {of_what}",
            description=f"Removes the limit on {of_what}, and no other. That there is none is no error.",
            **shared,
        )


ROUTES: Final = Part(
    make=quota_routes,
    writes=(
        Write(NAMESPACES, ("get",)),
        Write(VIRTUAL_MACHINES, ("get",)),
        Write(HARVESTER_QUOTAS, ("get", "create", "patch")),
    ),
)
