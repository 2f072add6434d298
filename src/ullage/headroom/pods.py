"""Pods as far as they are charged: what one takes, and which of them somebody else pays for. Pure.

KubeVirt runs every instance in a pod, and makes another where it moves to. Those are marked when they are made, since a machine
or a migration pays for them, and they stay free for as long as the instance controls them. Whatever else runs in the namespace
takes what it may use at most, so that it does not eat what is kept for migrations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.headroom.accounts import RESOURCES, VMS, stamp_for
from ullage.headroom.counting import FINISHED
from ullage.kube.kinds import Kind, Meta, Object, OwnerReference, Value
from ullage.kube.objects import controller_of
from ullage.ledger.amounts import NOTHING, Amounts, Takings
from ullage.ledger.charging.stamps import FREE, STAMP
from ullage.pods.resources import STAYS, InitContainer, Side, larger, parsed, total
from ullage.pods.resources import Amounts as Resources
from ullage.vms.api.machines import GROUP, INSTANCES

MARK: Final = str(FREE)


class PodResources(Value):
    requests: Mapping[str, str | int | float] = {}
    limits: Mapping[str, str | int | float] = {}

    def amounts(self, side: Side) -> Resources:
        """What is not limited counts as what is asked for: it is the least that it may use."""
        asked = parsed(self.requests)
        return {**asked, **parsed(self.limits)} if side == "limits" else asked


class PodContainer(Value):
    restart_policy: str = ""
    resources: PodResources = PodResources()


class ChargedPodSpec(Value):
    """Ephemeral containers are left out: they can neither ask for anything nor be limited."""

    containers: tuple[PodContainer, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()
    resources: PodResources = PodResources()
    overhead: Mapping[str, str | int | float] = {}


class ChargedPodStatus(Value):
    phase: str = ""


class ChargedPod(Object):
    spec: ChargedPodSpec = ChargedPodSpec()
    status: ChargedPodStatus = ChargedPodStatus()


PODS: Final = Kind("", "v1", "Pod", "pods", ChargedPod, whole=False)


def pod_takes(pod: ChargedPod) -> Takings:
    if pod.status.phase in FINISHED or is_free(pod.metadata):
        return NOTHING
    return stamp_for(VMS, pod_amounts(pod.spec)).takes


def pod_amounts(spec: ChargedPodSpec) -> Amounts:
    """Never less than a ResourceQuota would count, of what is asked for or of what it may use."""
    found = larger(_side(spec, "requests"), _side(spec, "limits"))
    return Amounts((name, found[name]) for name in RESOURCES if name in found)


def _side(spec: ChargedPodSpec, side: Side) -> Resources:
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
