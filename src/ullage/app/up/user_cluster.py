"""What a user cluster of `ullage up --seeds` has: machine-controller's kinds, and the account of whoever plays its part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ullage.app.installer.manifests import Manifest, definitions, manifests
from ullage.app.installer.roles import WORLD
from ullage.kube.builtin.apiextensions import DEFINITIONS
from ullage.kube.builtin.core import NAMESPACES
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS
from ullage.standalone.world.user_cluster.slice import user_cluster

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
