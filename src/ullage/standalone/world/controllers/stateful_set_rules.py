"""A StatefulSet: which claims and pods are to be made, which pods go, and what its status says.

Pods have numbers. Unless the set says Parallel, one comes after the other: the next when all before it are ready, and from the
highest down when there are too many. Claims are made from templates, and stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.builtin.apps import STATEFUL_SETS, StatefulSet, StatefulSetStatus
from ullage.kube.builtin.core import CLAIMS, PODS, Pod
from ullage.kube.objects import Json, is_deleting, owner_reference

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
REVISION: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class StatefulSetPlan:
    status: StatefulSetStatus
    claims: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    delete: tuple[Pod, ...] = ()


def plan_stateful_set(found: StatefulSet, pods: Sequence[Pod], *, claims: Collection[str]) -> StatefulSetPlan | None:
    """None: it is being deleted. `pods` are those that it controls, `claims` the names of those in its namespace."""
    if is_deleting(found.metadata):
        return None
    by_number = {number: pod for pod in pods if (number := _number(found, pod)) is not None}
    make, delete = _steps(found, by_number)
    wanted = [claim for number in make for claim in claims_for(found, number) if claim["metadata"]["name"] not in claims]
    return StatefulSetPlan(
        status_of(found, list(by_number.values())),
        tuple(wanted),
        tuple(pod_for(found, number) for number in make),
        tuple(delete),
    )


def _steps(found: StatefulSet, pods: Mapping[int, Pod]) -> tuple[list[int], list[Pod]]:
    """The numbers that come next, and the pods that go."""
    at_once = found.spec.pod_management_policy == "Parallel"
    first = found.spec.ordinals.start
    numbers = range(first, first + found.spec.replicas)
    make = [number for number in numbers if number not in pods]
    over = [pod for number, pod in sorted(pods.items()) if number in numbers and pod.is_over and not is_deleting(pod.metadata)]
    surplus = [pods[number] for number in sorted(pods, reverse=True) if number not in numbers]
    outdated = list(_outdated(found, pods))
    if at_once:
        staying = [pod for pod in surplus if not is_deleting(pod.metadata)]
        return make, [*over, *staying, *(outdated[:1] if _all_ready(pods, numbers) else [])]
    for number in numbers:
        pod = pods.get(number)
        if pod is None:
            return [number], []
        if not pod.is_ready or is_deleting(pod.metadata) or pod.is_over:
            return [], over[:1] if pod in over else []
    return [], [pod for pod in (surplus or outdated)[:1] if not is_deleting(pod.metadata)]


def _all_ready(pods: Mapping[int, Pod], numbers: range) -> bool:
    return all(number in pods and pods[number].is_ready and not is_deleting(pods[number].metadata) for number in numbers)


def _outdated(found: StatefulSet, pods: Mapping[int, Pod]) -> Iterator[Pod]:
    """Pods of an older template, the highest number first. With OnDelete they wait until somebody deletes them."""
    if found.spec.update_strategy.type == "RollingUpdate":
        now = revision(found)
        yield from (pods[number] for number in sorted(pods, reverse=True) if pods[number].metadata.labels.get(REVISION) != now)


def status_of(found: StatefulSet, pods: Sequence[Pod]) -> StatefulSetStatus:
    now = revision(found)
    living = [pod for pod in pods if not pod.is_over]
    ready = sum(pod.is_ready and not is_deleting(pod.metadata) for pod in living)
    updated = sum(pod.metadata.labels.get(REVISION) == now for pod in living)
    settled = updated == len(living) == found.spec.replicas
    before = found.status.current_revision
    current = now if settled or not before else before
    return StatefulSetStatus(
        observed_generation=found.metadata.generation,
        replicas=len(living),
        ready_replicas=ready,
        available_replicas=ready,
        current_replicas=sum(pod.metadata.labels.get(REVISION) == current for pod in living),
        updated_replicas=updated,
        current_revision=current,
        update_revision=now,
    )


def revision(found: StatefulSet) -> str:
    """The name of the template as it is now."""
    told = json.dumps(found.spec.template, sort_keys=True).encode()
    return f"{found.metadata.name}-{hashlib.sha256(told).hexdigest()[:10]}"


def claim_name(template: Mapping[str, Any], found: StatefulSet, number: int) -> str:
    return f"{template['metadata']['name']}-{found.metadata.name}-{number}"


def claims_for(found: StatefulSet, number: int) -> Iterator[Json]:
    for template in found.spec.volume_claim_templates:
        meta = template["metadata"]
        labels = {**(meta.get("labels") or {}), **(found.spec.selector.get("matchLabels") or {})}
        yield {
            "apiVersion": "v1",
            "kind": CLAIMS.kind,
            "metadata": {
                "name": claim_name(template, found, number),
                "namespace": found.metadata.namespace,
                "labels": labels,
                "annotations": meta.get("annotations") or {},
            },
            "spec": template["spec"],
        }


def pod_for(found: StatefulSet, number: int) -> Json:
    """The pod of a number: its name is its hostname, and each claim template is a volume."""
    template = found.spec.template
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    name = f"{found.metadata.name}-{number}"
    templates = found.spec.volume_claim_templates
    own = [
        {"name": one["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name(one, found, number)}}
        for one in templates
    ]
    taken = {volume["name"] for volume in own}
    volumes = [*own, *(volume for volume in spec.get("volumes") or () if volume["name"] not in taken)]
    marks = {POD_NAME: name, POD_INDEX: str(number), REVISION: revision(found)}
    return {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": found.metadata.namespace,
            "labels": {**(meta.get("labels") or {}), **marks},
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [owner_reference(STATEFUL_SETS, found.metadata, controller=True)],
        },
        "spec": {**spec, "hostname": name, "subdomain": found.spec.service_name, "volumes": volumes},
    }


def _number(found: StatefulSet, pod: Pod) -> int | None:
    name, _, digits = pod.metadata.name.rpartition("-")
    return int(digits) if name == found.metadata.name and digits.isascii() and digits.isdecimal() else None
