"""Which pods of an instance are marked as paid for, of those that nobody marked when they were made. Pure.

That an instance controls a pod is written by whoever makes it; which pods it has, KubeVirt says in its status. No instance has
more of them that are free than one, and one more for each migration that goes on: so whoever forges both wins nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ullage.headroom.counting import FINISHED
from ullage.headroom.pods import instance_owner, is_free
from ullage.kube.builtin.watched_pods import WatchedPod
from ullage.vms.api.machines import VirtualMachineInstance


def unmarked(instance: VirtualMachineInstance, pods: Iterable[WatchedPod], *, migrations: int) -> tuple[WatchedPod, ...]:
    """`pods`: those that it controls. `migrations`: of it, that have not ended."""
    alive = [one for one in pods if one.status.phase not in FINISHED and _is_of(one, instance)]
    free = [one for one in alive if is_free(one.metadata)]
    named = [one for one in alive if one not in free and one.metadata.uid in instance.status.active_pods]
    return tuple(sorted(named, key=_age)[: max(0, 1 + migrations - len(free))])


def _is_of(pod: WatchedPod, instance: VirtualMachineInstance) -> bool:
    owner = instance_owner(pod.metadata)
    return owner is not None and owner.uid == instance.metadata.uid


def _age(pod: WatchedPod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.uid
