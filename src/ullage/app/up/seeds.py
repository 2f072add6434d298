"""Seeds and user clusters on one machine, each a control plane of its own: what runs in them, and what they have at first.

A seed is reached by the master as the account `master` there, which may copy quotas and divide limits and nothing else. A user
cluster is reached by its seed with the kubeconfig of its administrator, as KKP does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage.app.installer.manifests import Manifest, definitions, manifests
from ullage.app.installer.names import CLUSTER, MASTER, SEED, ControlPlaneRole
from ullage.app.installer.roles import WORLD
from ullage.app.up.control_planes import KUBECONFIG, SeedPlane, seed_planes
from ullage.app.up.setup import Parts, Setup, make_namespace, with_configuration
from ullage.kube.builtin.apiextensions import DEFINITIONS
from ullage.kube.builtin.core import NAMESPACES
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS
from ullage.standalone.up.components import Component, System
from ullage.standalone.up.supervisor import ProcessRole
from ullage.standalone.world.user_cluster import user_cluster

if TYPE_CHECKING:
    from ullage.app.configuration.types import Configuration
    from ullage.app.installer.outcomes import Outcome
    from ullage.app.up.kubeconfig_secrets import KubeconfigSecret
    from ullage.kube.client.client import Client
    from ullage.kube.kinds import Kind
    from ullage.kube.objects import Json
    from ullage.kube.slices import Slice

# What a user cluster of `ullage up --seeds` has: machine-controller's kinds, and the account of whoever plays its part.


_SCALED = frozenset({MACHINE_DEPLOYMENTS.name, MACHINE_SETS.name})
_SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def user_cluster_manifests() -> list[Manifest]:
    """Nothing of ours but the world: a user cluster belongs to its users."""
    world = user_cluster()
    own = {WORLD, f"ullage:{WORLD}"}
    accounts = [one for one in manifests((), world=world) if one.kind is NAMESPACES or one.name in own]
    return [*map(_scalable, definitions((world,), foreign=True)), *accounts]


def _scalable(manifest: Manifest) -> Manifest:
    """With `kubectl scale`, as machine-controller's own definitions have it."""
    if manifest.kind is not DEFINITIONS or manifest.name not in _SCALED:
        return manifest
    body: dict[str, Any] = manifest.body
    versions = [{**one, "subresources": {**one.get("subresources", {}), "scale": _SCALE}} for one in body["spec"]["versions"]]
    return replace(manifest, body={**body, "spec": {**body["spec"], "versions": versions}})


MASTER_ROLES: Final[tuple[ControlPlaneRole, ...]] = (CLUSTER, MASTER)
PROVIDER: Final = "fake"  # whose machines say how large they are, and are nowhere


# --- on the master ---------------------------------------------------------------------------------------------------


def seed_components(count: int, *, program: Sequence[str], options: Sequence[str], project: str) -> tuple[Component, ...]:
    """One for each seed, with all that is in it."""

    def component(plane: SeedPlane) -> Component:
        def command(directory: Path, port: int) -> list[str]:
            where = ["--data-dir", str(plane.directory(directory)), "--port", str(port)]
            return [*program, "up-seed", *where, "--cluster", plane.cluster, "--project", project, *options]

        role = ProcessRole(plane.name, f"seed {plane.name}", f"seed {plane.name}")
        return Component(role, command, "https://127.0.0.1:{port}", apart=True)

    return tuple(component(plane) for plane in seed_planes(count))


async def bring_seeds(client: Client, count: int, *, project: str) -> None:
    """The Seeds, and a project to begin with, where they are not there. The Secrets follow from the seeds' files."""
    from ullage.projects.api.kkp import PROJECTS, SEEDS
    from ullage.projects.settings import SEED_NAMESPACE

    if project:
        await _create(client, PROJECTS, project, spec={"name": "Demonstration"})
    for plane in seed_planes(count):
        reference = {"name": _seed_secret(plane), "namespace": SEED_NAMESPACE}
        spec = {"kubeconfig": reference, "location": "this machine", "country": "", "datacenters": {}}
        await _create(client, SEEDS, plane.name, SEED_NAMESPACE, spec=spec)


def seed_secrets(directory: Path, count: int) -> list[KubeconfigSecret]:
    from ullage.app.up.kubeconfig_secrets import KubeconfigSecret
    from ullage.projects.settings import SEED_NAMESPACE

    return [
        KubeconfigSecret(SEED_NAMESPACE, _seed_secret(plane), plane.directory(directory) / f"{MASTER}.{KUBECONFIG}")
        for plane in seed_planes(count)
    ]


def _seed_secret(plane: SeedPlane) -> str:
    return f"kubeconfig-{plane.name}"


# --- a seed ----------------------------------------------------------------------------------------------------------


def seed_system(
    slices: Callable[[], Sequence[Slice]], *, program: Sequence[str], options: Sequence[str], cluster: str, project: str
) -> System:
    plane = SeedPlane("", cluster)

    def parts() -> Parts:
        from ullage.app.installer.manifests import manifests, master_account
        from ullage.app.installer.names import Names
        from ullage.app.installer.roles import CONTROLLER, WEBHOOK
        from ullage.app.up.kubeconfig_secrets import KubeconfigSecret
        from ullage.projects.settings import KUBECONFIG_SECRET, SEED_NAMESPACE

        wanted = [*manifests(slices(), foreign=True, names=Names.of([SEED])), *master_account()]

        async def bring(client: Client, directory: Path) -> Sequence[Outcome]:
            await bring_user_cluster(client, cluster, project=project)
            return ()

        return Parts(
            wanted=lambda directory: wanted,
            accounts=(CONTROLLER, WEBHOOK),
            namespaces=(SEED_NAMESPACE,),
            bring=bring,
            handed=(MASTER,),
            secrets=lambda directory: [
                KubeconfigSecret(
                    _cluster_namespace(cluster), KUBECONFIG_SECRET, plane.cluster_directory(directory) / KUBECONFIG
                )
            ],
            configuration=lambda directory: seed_configuration(),
        )

    def webhook(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", str(directory / f"webhook.{KUBECONFIG}"), "--port", str(port)]
        return [*program, "webhook", *with_configuration(directory), *own, *options]

    def controller(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", str(directory / f"controller.{KUBECONFIG}"), "--metrics-port", str(port)]
        return [*program, "controller", *with_configuration(directory), *own, *options]

    def user_cluster(directory: Path, port: int) -> list[str]:
        where = ["--data-dir", str(plane.cluster_directory(directory)), "--port", str(port)]
        return [*program, "up-user-cluster", *where, *options]

    setup = Setup(parts)
    return System(
        setup.prepare,
        setup.maintain,
        (
            Component(ProcessRole("webhook", "webhook", "webhook"), webhook, "https://127.0.0.1:{port}"),
            Component(ProcessRole("controller", "controller", "controller"), controller, "http://127.0.0.1:{port}/metrics"),
            Component(
                ProcessRole(cluster, f"user cluster {cluster}", f"user cluster {cluster}"),
                user_cluster,
                "https://127.0.0.1:{port}",
                apart=True,
            ),
        ),
    )


def seed_configuration() -> Configuration:
    """What webhook and controller of a seed run with."""
    from ullage.app.configuration import types

    return types.configuration(types.Spec(roles=(SEED,), webhook=types.Webhook(drain_seconds=0)))


async def bring_user_cluster(client: Client, name: str, *, project: str) -> None:
    """Makes the Cluster and its namespace where they are not there. A Cluster without the name of its namespace gets it."""
    from ullage.projects.api.kkp import CLUSTERS
    from ullage.projects.names import PROJECT_ID

    namespace = _cluster_namespace(name)
    await make_namespace(client, namespace)
    spec = {"humanReadableName": name, "cloud": {"providerName": PROVIDER, "dc": "here", PROVIDER: {}}}
    await _create(client, CLUSTERS, name, labels={PROJECT_ID: project} if project else {}, spec=spec)
    if not (await client.get(CLUSTERS, name)).status.namespace_name:
        status = {"status": {"namespaceName": namespace, "phase": "Running"}}
        await client.patch(CLUSTERS, name, merge=status, subresource="status")


def _cluster_namespace(cluster: str) -> str:
    return f"cluster-{cluster}"


# --- a user cluster --------------------------------------------------------------------------------------------------


def user_cluster_system(*, program: Sequence[str], options: Sequence[str]) -> System:
    def parts() -> Parts:
        from ullage.app.installer.roles import WORLD

        wanted = user_cluster_manifests()
        return Parts(wanted=lambda directory: wanted, accounts=(WORLD,))

    def world(directory: Path, port: int) -> list[str]:
        own = ["--kubeconfig", str(directory / f"world.{KUBECONFIG}"), "--metrics-port", str(port)]
        return [*program, "world", "--user-cluster", *own, *options]

    setup = Setup(parts)
    component = Component(ProcessRole("world", "world", "world"), world, "http://127.0.0.1:{port}/metrics")
    return System(setup.prepare, setup.maintain, (component,))


# --- objects ---------------------------------------------------------------------------------------------------------


async def _create(
    client: Client, kind: Kind[Any], name: str, namespace: str = "", *, labels: Json | None = None, **rest: Any
) -> bool:
    """Creates an object where there is none: one that is there stays as its administrator left it."""
    from ullage.standalone.world import calls

    place = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **place, "labels": labels or {}}
    return await calls.ensure(client, kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest})
