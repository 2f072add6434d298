"""The world as one value: its controllers, and what they may do. On a cluster it is not there: others play these parts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from ullage.engines.api import ENGINES
from ullage.engines.api import VOLUMES as ENGINE_VOLUMES
from ullage.engines.client.connection import HostConnection
from ullage.engines.handles import NAMESPACE
from ullage.kube.builtin.apps import CONTROLLER_REVISIONS, STATEFUL_SETS
from ullage.kube.builtin.batch import JOBS
from ullage.kube.builtin.core import CLAIMS, CORE_QUOTAS, NAMESPACES, NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json
from ullage.kube.slices import Grant, Part, Slice, Wiring, Write
from ullage.policies.groups.api import GROUP_CLASSES
from ullage.policies.groups.model import DEFAULT_CLASS as DEFAULT_GROUP_CLASS
from ullage.snapshots.api.ga.translation import DEFAULT_CLASS
from ullage.snapshots.api.ga.types import SNAPSHOT_CLASSES
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import persistent_volume_hostpath_rules as hostpath
from ullage.standalone.world.controllers import persistent_volume_longhorn_rules as longhorn
from ullage.standalone.world.controllers.claim import claim_controller
from ullage.standalone.world.controllers.evacuation import evacuation_controller
from ullage.standalone.world.controllers.job import job_controller
from ullage.standalone.world.controllers.kubevirt import kubevirt_controller
from ullage.standalone.world.controllers.longhorn_volume import longhorn_volume_controller
from ullage.standalone.world.controllers.migration import migration_controller
from ullage.standalone.world.controllers.namespace import namespace_controller
from ullage.standalone.world.controllers.node import node_controller
from ullage.standalone.world.controllers.persistent_volume_hostpath import hostpath_controller
from ullage.standalone.world.controllers.persistent_volume_longhorn import longhorn_controller
from ullage.standalone.world.controllers.pod.controller import pod_controller
from ullage.standalone.world.controllers.stateful_set import stateful_set_controller
from ullage.standalone.world.controllers.unsupported import CONDITIONS, unsupported_controllers
from ullage.standalone.world.controllers.virtual_machine import virtual_machine_controller
from ullage.standalone.world.controllers.virtual_machine_instance import instance_controller
from ullage.standalone.world.directories import Directories, Locked
from ullage.standalone.world.kubelet.places import places_of
from ullage.standalone.world.kubelet.server import Kubelet
from ullage.standalone.world.kubelet.shell import Freezes
from ullage.standalone.world.lookup import LonghornLookup, StorageLookup
from ullage.standalone.world.migrations import MigrationLookup
from ullage.vms.api.instance_types import (
    CLUSTER_INSTANCE_TYPES,
    CLUSTER_PREFERENCES,
    INSTANCE_TYPES,
    PREFERENCES,
    TYPE_KINDS,
)
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.prices import Prices, price_sources
from ullage.vms.pricing import PricingChoice

NAME: Final = "world"
HANDOVER_SECONDS: Final = 10.0  # for the process of a killed `ullage up` to notice, and leave
POLL_SECONDS: Final = 0.1

MIGRATION_SECONDS: Final = 2.0  # that copying takes, where nothing else is said

KUBEVIRT: Final = "kubevirt"  # the namespace, and the object, that KubeVirt is configured by
# As whoever drains nodes wants it. KubeVirt by itself would keep instances where they are.
KUBEVIRT_OBJECT: Final[Json] = {
    "apiVersion": KUBEVIRTS.api_version,
    "kind": KUBEVIRTS.kind,
    "metadata": {"name": KUBEVIRT, "namespace": KUBEVIRT},
    "spec": {"configuration": {"evictionStrategy": "LiveMigrate"}},
}
LONGHORN_NAMESPACE: Final[Json] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}

ENGINE_WRITES: Final = (
    Write(ENGINE_VOLUMES, ("create", "patch", "delete")),
    Write(ENGINE_VOLUMES, ("patch",), ("status",)),
    Write(ENGINES, ("create", "patch", "delete")),
    Write(ENGINES, ("patch",), ("status",)),
)


# What KubeVirt's own roles give to whoever may edit or view a namespace. Not the status: nobody but KubeVirt writes that.
_GRANTED: Final[tuple[Kind[Any], ...]] = (VIRTUAL_MACHINES, INSTANCES, MIGRATIONS, INSTANCE_TYPES, PREFERENCES)
GRANTS: Final = (
    Grant(
        name="edit",
        roles=("edit", "admin"),
        kinds=_GRANTED,
        verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
    ),
    Grant(
        name="view",
        roles=("view",),
        kinds=(*_GRANTED, CLUSTER_INSTANCE_TYPES, CLUSTER_PREFERENCES),
        verbs=("get", "list", "watch"),
    ),
)


def world(
    directories: Directories,
    *,
    engines: str | None = None,
    nodes: int = 1,
    pricing: PricingChoice = PricingChoice(),  # noqa: B008  a value
    migration_seconds: float = MIGRATION_SECONDS,
) -> Slice:
    """The slice. The directories are open as long as its controllers run. `engines` is the address of the host of engines;
    without it nobody plays Longhorn's part. `nodes` is how many there are to be at least, and `pricing`
    says which version of KubeVirt is played, so how large its pods are. Instances that say nothing else move to another node in
    `migration_seconds`."""

    def controllers(wiring: Wiring) -> Iterable[Controller[Any]]:
        recorder, storage = wiring.recorder(NAME), StorageLookup(wiring)
        prices = Prices(pricing, wiring.shared(price_sources))
        yield kubevirt_controller(wiring, version=pricing.version)
        yield node_controller(wiring, count=nodes, kubelet=_kubelet(wiring, storage, directories))
        yield namespace_controller(wiring, recorder)
        yield claim_controller(wiring, storage, recorder)
        yield hostpath_controller(wiring, storage, directories=directories, recorder=recorder)
        yield pod_controller(wiring, storage, directories=directories, recorder=recorder)
        yield job_controller(wiring, storage, recorder)
        yield stateful_set_controller(wiring, storage, recorder)
        yield from unsupported_controllers(wiring, recorder)
        yield virtual_machine_controller(wiring, storage.instances, recorder=recorder)
        lookup = LonghornLookup(wiring, storage) if engines is not None else None
        yield instance_controller(wiring, storage, lookup, prices=prices, recorder=recorder)
        moves = MigrationLookup(wiring, storage)
        yield migration_controller(wiring, moves, recorder=recorder, usual=migration_seconds, prices=prices)
        yield evacuation_controller(wiring, moves, recorder=recorder)
        if engines is not None and lookup is not None:
            connection = HostConnection(engines)
            wiring.hold(connection)
            yield longhorn_volume_controller(wiring, lookup, connection.host, recorder=recorder)
            yield longhorn_controller(wiring, lookup, recorder=recorder)

    return Slice(
        name=NAME,
        grants=GRANTS,
        controllers=Part(
            make=controllers,
            watches=(
                CLAIMS,
                PERSISTENT_VOLUMES,
                STORAGE_CLASSES,
                PODS,
                NODES,
                NAMESPACES,
                CORE_QUOTAS,
                JOBS,
                STATEFUL_SETS,
                VIRTUAL_MACHINES,
                INSTANCES,
                MIGRATIONS,
                KUBEVIRTS,
                *CONDITIONS,
                *((ENGINE_VOLUMES, ENGINES) if engines else ()),
            ),
            writes=(
                Write(KUBEVIRTS, ("patch",), ("status",)),
                Write(CLAIMS, ("create", "patch")),
                Write(CLAIMS, ("patch",), ("status",)),
                Write(PERSISTENT_VOLUMES, ("create", "patch", "delete")),
                Write(PERSISTENT_VOLUMES, ("patch",), ("status",)),
                Write(PODS, ("create", "delete")),
                Write(PODS, ("create",), ("binding",)),
                Write(PODS, ("patch",), ("status",)),
                Write(NODES, ("create", "patch")),
                Write(NODES, ("patch",), ("status",)),
                Write(CORE_QUOTAS, ("create", "patch", "delete")),
                Write(JOBS, ("patch",), ("status",)),
                Write(STATEFUL_SETS, ("patch",), ("status",)),
                Write(CONTROLLER_REVISIONS, ("get", "create")),
                *(Write(kind, ("get",)) for kind in TYPE_KINDS),
                Write(VIRTUAL_MACHINES, ("patch",), ("", "status")),
                Write(INSTANCES, ("create", "delete")),
                Write(INSTANCES, ("patch",), ("", "status")),
                Write(MIGRATIONS, ("create", "delete")),
                Write(MIGRATIONS, ("patch",), ("", "status")),
                *(Write(kind, ("patch",), ("status",)) for kind, condition in CONDITIONS.items() if condition),
                *(ENGINE_WRITES if engines else ()),
            ),
            events=True,
        ),
    )


def _kubelet(wiring: Wiring, storage: StorageLookup, directories: Directories) -> Kubelet | None:
    """None where nobody can tell the API server from anybody else: then no commands are run in pods."""
    config = wiring.client.config
    authority = Path(config.ca_file).read_bytes() if config.ca_file else config.ca
    if not authority:
        return None
    found = Kubelet(
        authority,
        Freezes(directories.notes),
        pods=storage.pods.get,
        places=places_of(storage, directories),
        clock=wiring.clock,
    )
    wiring.hold(found)
    return found


async def bring_classes(client: Client, *, engines: bool = False) -> bool:
    """Makes the StorageClasses and the classes of their snapshots, where there is none of the name. What is there stays as
    its administrator left it. With `engines` also those of Longhorn, and its namespace."""
    if engines:
        await calls.ensure(client, NAMESPACES, LONGHORN_NAMESPACE)
    made = False
    for found in (hostpath.STORAGE_CLASS, *((longhorn.STORAGE_CLASS,) if engines else ())):
        made |= await calls.ensure(client, STORAGE_CLASSES, found)
        with contextlib.suppress(NotFound):  # a control plane without snapshots
            made |= await calls.ensure(client, SNAPSHOT_CLASSES, _snapshot_class(found))
            made |= await calls.ensure(client, GROUP_CLASSES, _group_class(found))
    return made


async def bring_kubevirt(client: Client) -> None:
    """Makes the object that KubeVirt is configured by, and its namespace, where there is none: an administrator changes it."""
    await calls.ensure(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUBEVIRT}})
    with contextlib.suppress(NotFound):  # a control plane without VMs
        await calls.ensure(client, KUBEVIRTS, KUBEVIRT_OBJECT)


def _snapshot_class(found: Json) -> Json:
    """For each driver a default of its own."""
    return {
        "apiVersion": SNAPSHOT_CLASSES.api_version,
        "kind": SNAPSHOT_CLASSES.kind,
        "metadata": {"name": found["metadata"]["name"], "annotations": {DEFAULT_CLASS: "true"}},
        "driver": found["provisioner"],
        "deletionPolicy": "Delete",
    }


def _group_class(found: Json) -> Json:
    """The same for groups."""
    return {
        "apiVersion": GROUP_CLASSES.api_version,
        "kind": GROUP_CLASSES.kind,
        "metadata": {"name": found["metadata"]["name"], "annotations": {DEFAULT_GROUP_CLASS: "true"}},
        "driver": found["provisioner"],
        "deletionPolicy": "Delete",
    }


@asynccontextmanager
async def opened(root: Path, *, timeout: float = HANDOVER_SECONDS) -> AsyncIterator[Directories]:
    """The directories below a root, for this process alone. Waits a while for another one to leave."""
    directories = Directories(root)
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        try:
            directories.open()
            break
        except Locked:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(POLL_SECONDS)
    try:
        yield directories
    finally:
        directories.close()
