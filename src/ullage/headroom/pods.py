"""Pods as far as they are charged: what one takes, and which of them somebody else pays for. Pure.

KubeVirt runs every instance in a pod, and makes another where it moves to. Those are marked when they are made, since a machine
or a migration pays for them, and they stay free for as long as the instance controls them. Whatever else runs in the namespace
takes what it may use at most, so that it does not eat what is kept for migrations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.headroom.accounts import RESOURCES, VMS, stamp_for
from ullage.headroom.counting import FINISHED
from ullage.kube.builtin.watched_pods import PodContainer, WatchedPod, WatchedPodSpec
from ullage.kube.kinds import Meta, OwnerReference
from ullage.kube.objects import controller_of
from ullage.ledger.amounts import NOTHING, Amounts, Takings
from ullage.ledger.charging.stamps import FREE, STAMP
from ullage.pods.resources import STAYS, InitContainer, Side, larger, parsed, total
from ullage.pods.resources import Amounts as Resources
from ullage.vms.api.machines import GROUP, INSTANCES, VirtualMachineInstance
from ullage.vms.launcher.compute import COMPUTE

MARK: Final = str(FREE)


def pod_takes(pod: WatchedPod) -> Takings:
    if pod.status.phase in FINISHED or is_free(pod.metadata):
        return NOTHING
    return stamp_for(VMS, pod_amounts(pod.spec)).takes


def pod_amounts(spec: WatchedPodSpec) -> Amounts:
    """Never less than a ResourceQuota would count, of what is asked for or of what it may use."""
    found = larger(_side(spec, "requests"), _side(spec, "limits"))
    return Amounts((name, found[name]) for name in RESOURCES if name in found)


def running_in(instance: VirtualMachineInstance, pods: Iterable[WatchedPod]) -> list[WatchedPod]:
    """The pods that an instance runs in: on its node, named by KubeVirt in its status, and marked as paid for. `pods` are those
    that it controls. A pod that it moves to is not among them before it runs there."""
    status = instance.status
    return [
        one
        for one in pods
        if one.status.phase not in FINISHED
        and is_free(one.metadata)
        and (owner := instance_owner(one.metadata)) is not None
        and owner.uid == instance.metadata.uid
        and status.node_name
        and status.active_pods.get(one.metadata.uid) == status.node_name
    ]


def launcher_takes(spec: WatchedPodSpec, cost: Amounts) -> Amounts:
    """What the pod of an instance takes. Where the container of the guest has no limit, it may use what the instance costs."""
    found = pod_amounts(spec)
    guest = next((one for one in spec.containers if one.name == COMPUTE), PodContainer())
    unlimited = (name for name in RESOURCES if name not in guest.resources.limits and name in cost)
    return found | Amounts((name, cost[name]) for name in unlimited)


def _side(spec: WatchedPodSpec, side: Side) -> Resources:
    return total(
        side,
        (one.resources.amounts(side) for one in spec.containers),
        (InitContainer(one.resources.amounts(side), stays=one.restart_policy == STAYS) for one in spec.init_containers),
        whole=parsed(spec.resources.limits if side == "limits" else spec.resources.requests),
        overhead=parsed(spec.overhead),
    )


def is_free(meta: Meta) -> bool:
    """One that loses its instance is a pod like any other: nobody ends it together with what pays for it."""
    return meta.annotations.get(STAMP) == MARK and instance_owner(meta) is not None


def instance_owner(meta: Meta) -> OwnerReference | None:
    """The VirtualMachineInstance that controls a pod, if one does."""
    owner = controller_of(meta)
    if owner is None or owner.kind != INSTANCES.kind or owner.api_version.partition("/")[0] != GROUP:
        return None
    return owner
