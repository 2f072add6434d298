"""Launchers: the pod in which an instance of a VM runs, and the one to which it moves. As KubeVirt makes them. Pure.

Their containers, limits and requests are those of KubeVirt itself (`vms/launcher`), which is what a ResourceQuota of the
cluster sees of a VM. Under the formula of the design, which knows no pod, one container has all that a VM costs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ullage.kube.builtin.core import PODS, Pod
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, is_deleting
from ullage.names import LABEL_LIMIT
from ullage.quantity import Quantity, QuantityError
from ullage.standalone.world.machines import dicts, fixed_claims, part
from ullage.standalone.world.model import HOSTNAME
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.launcher.compute import COMPUTE
from ullage.vms.launcher.containers import Container
from ullage.vms.pricing import Cost, Pricing, PricingChoice

APP: Final = "kubevirt.io"
LAUNCHER: Final = "virt-launcher"
CREATED_BY: Final = "kubevirt.io/created-by"  # the uid of the instance
VM_NAME: Final = "vm.kubevirt.io/name"
DOMAIN: Final = "kubevirt.io/domain"
MIGRATION: Final = "kubevirt.io/migrationJobUID"  # of a pod that an instance moves to
MIGRATION_NAME: Final = "kubevirt.io/migrationJobName"
IMAGE: Final = "virt-launcher"  # nothing is ever pulled
GRACE_SECONDS: Final = 60
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"  # the one annotation that a pod does not get
USUAL: Final = Pricing(PricingChoice().settings_by(None))

_SUFFIX: Final = 5
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def launcher_name(instance: str, uid: str) -> str:
    """From the uid of the instance, or of the migration, that it is made for: made twice it is one."""
    suffix = hashlib.sha256(uid.encode()).hexdigest()[:_SUFFIX]
    return f"{LAUNCHER}-{instance}-"[: LABEL_LIMIT - _SUFFIX] + suffix


def new_launcher(
    body: Json, *, pricing: Pricing = USUAL, node: str = "", target_of: Meta | None = None, avoid: str = ""
) -> Json:
    """The pod of an instance whose whole body is given. `node`: it runs there already. `target_of` is the migration that it is
    made for, and `avoid` the node that this one leaves. Raises BadInput where the spec does not say what it costs."""
    meta, spec = body["metadata"], part(body, "spec")
    name, uid = meta["name"], meta["uid"]
    annotations = {key: one for key, one in part(meta, "annotations").items() if isinstance(one, str) and key != LAST_APPLIED}
    wanted: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {**part(spec, "nodeSelector"), **({HOSTNAME: node} if node else {})},
        "affinity": _affinity(spec, avoid),
        "tolerations": spec.get("tolerations") or [],
        **_containers(spec, pricing, annotations),
        "volumes": [
            {"name": f"disk-{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(fixed_claims(spec))
        ],
    }
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": launcher_name(name, target_of.uid if target_of is not None else uid),
            "namespace": meta["namespace"],
            "labels": _labels(body, target_of),
            "annotations": {**annotations, DOMAIN: name, **({MIGRATION_NAME: target_of.name} if target_of is not None else {})},
            "ownerReferences": [_owner(name, uid)],
        },
        "spec": {key: value for key, value in wanted.items() if value not in ({}, [])},
    }


def current_launcher(instance: VirtualMachineInstance, pods: Iterable[Pod]) -> Pod | None:
    """The one that the instance runs in, or is to. `pods` are those that it controls: since whoever may make pods may say so of
    his own, the name counts, too."""
    alive = [one for one in pods if not one.is_over and not is_deleting(one.metadata)]
    active = [one for one in alive if one.metadata.uid in instance.status.active_pods]
    if active:
        node = instance.status.node_name
        return min(active, key=lambda one: (one.spec.node_name != node, one.metadata.name))
    name = launcher_name(instance.metadata.name, instance.metadata.uid)
    return next((one for one in alive if one.metadata.name == name), None)


def targets_of(migration: str, pods: Iterable[Pod]) -> list[Pod]:
    """Those that were made for a migration, by its uid."""
    return [one for one in pods if one.metadata.labels.get(MIGRATION) == migration]


def _labels(body: Json, target_of: Meta | None) -> dict[str, str]:
    """Those of the instance, so that Services find it; ours go before them, since others find the pod by these."""
    name, uid = body["metadata"]["name"], body["metadata"]["uid"]
    given = {key: value for key, value in part(body["metadata"], "labels").items() if key != MIGRATION}
    known = {APP: LAUNCHER, CREATED_BY: uid, VM_NAME: name if len(name) <= LABEL_LIMIT else launcher_name(name, name)}
    return {**given, **known, **({MIGRATION: target_of.uid} if target_of is not None else {})}


def _owner(name: str, uid: str) -> Json:
    said = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "name": name, "uid": uid}
    return {**said, "controller": True, "blockOwnerDeletion": True}


def _containers(spec: Json, pricing: Pricing, annotations: Mapping[str, str]) -> Json:
    pod = pricing.pod_of(spec, annotations)
    if pod is None:
        found = _resources(spec, pricing.cost_of(spec))
        return {"containers": [{"name": COMPUTE, "image": IMAGE, "resources": found}]}
    return {
        "containers": [_container(one) for one in pod.containers if not one.starts_first],
        "initContainers": [_container(one) for one in pod.containers if one.starts_first],
    }


def _container(one: Container) -> Json:
    sides = {"limits": one.limits, "requests": one.requests}
    written = {side: {name: str(found) for name, found in amounts.items()} for side, amounts in sides.items() if amounts}
    return {"name": one.name, "image": IMAGE, "resources": written}


def _resources(spec: Json, cost: Cost) -> Json:
    """By the formula of the design: limits of all it may take. What it asks for is less only where the VM says so; the API
    server fills in the rest."""
    requests: dict[str, str] = {}
    asked = part(part(part(spec, "domain"), "resources"), "requests")
    if (cpu := _amount(asked.get("cpu"))) is not None:
        requests["cpu"] = f"{min(cpu.milli(), cost.cpu)}m"
    if (memory := _amount(asked.get("memory"))) is not None:
        around = cost.memory - cost.parts[0].memory
        requests["memory"] = str(min(memory.value() + around, cost.memory))
    limits = {"cpu": f"{cost.cpu}m", "memory": str(cost.memory)}
    return {"limits": limits, **({"requests": requests} if requests else {})}


def _amount(text: Any) -> Quantity | None:
    try:
        return None if text is None else Quantity.parse(str(text))
    except QuantityError:  # a limit stood in its place, or its cost would have been refused
        return None


def _affinity(spec: Json, avoid: str) -> Json:
    """That of the VM; each of its terms, and one where it has none, keeps away from a node."""
    given = part(spec, "affinity")
    if not avoid:
        return given
    away = {"key": HOSTNAME, "operator": "NotIn", "values": [avoid]}
    of_nodes = part(given, "nodeAffinity")
    terms = list(dicts(part(of_nodes, _REQUIRED).get("nodeSelectorTerms"))) or [{}]
    kept = [{**one, "matchExpressions": [*dicts(one.get("matchExpressions")), away]} for one in terms]
    return {**given, "nodeAffinity": {**of_nodes, _REQUIRED: {"nodeSelectorTerms": kept}}}
