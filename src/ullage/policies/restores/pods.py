"""Which pods use a claim: asked of the API itself, since a cache may be behind by the very pod that matters."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from ullage.clock import Clock
from ullage.errors import NotNow
from ullage.kube.builtin.watched_pods import WATCHED_PODS, WatchedPod
from ullage.kube.client.reader import Listing
from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import controller_of
from ullage.policies.restores.model import PodUser

T = TypeVar("T", bound=Object)
_SHOWN: Final = 3
RECENT_SECONDS: Final = 3.0


class Lister(Protocol):
    async def list(self, kind: Kind[T], namespace: str = "") -> Listing[T]: ...


class ClaimInUse(NotNow):
    """Pods use the claim, or something else does that the message tells of: nothing was changed."""

    def __init__(self, claim: str, pods: tuple[PodUser, ...], *, message: str = "") -> None:
        super().__init__(message or in_use(claim, pods))
        self.pods = pods


class RecentUsers:
    """Who used claims a moment ago: for restores that wait, of which a namespace may have many. One list serves all."""

    def __init__(self, client: Lister, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._seen: dict[str, tuple[float, tuple[WatchedPod, ...]]] = {}  # by namespace: when, and the pods that have claims

    async def of(self, namespace: str, claim: str) -> tuple[PodUser, ...]:
        now = self._clock.monotonic()
        since, pods = self._seen.get(namespace, (now - 2 * RECENT_SECONDS, ()))
        if now - since > RECENT_SECONDS:
            found = await self._client.list(WATCHED_PODS, namespace)
            pods = tuple(pod for pod in found.items if not pod.is_over and pod.spec.volumes)
            self._seen = {key: one for key, one in self._seen.items() if now - one[0] <= RECENT_SECONDS}
            self._seen[namespace] = now, pods
        return tuple(_user(pod) for pod in pods if _uses(pod, claim))


async def users_of(client: Lister, namespace: str, claim: str) -> tuple[PodUser, ...]:
    """Every pod that is not over and names the claim, whether it runs, waits or ends: VMs run in pods too, and what is plugged
    into one later is held by a pod of its own."""
    found = await client.list(WATCHED_PODS, namespace)
    return tuple(_user(pod) for pod in found.items if not pod.is_over and _uses(pod, claim))


def _uses(pod: WatchedPod, claim: str) -> bool:
    """By name, or by a volume that the pod has a claim of its own for."""
    own = {f"{pod.metadata.name}-{one.name}" for one in pod.spec.volumes if one.ephemeral is not None}
    return claim in own or any(key.name == claim for key in pod.claims)


def _user(pod: WatchedPod) -> PodUser:
    owner = controller_of(pod.metadata)
    made_by = f"{owner.kind} {owner.name}" if owner is not None else ""
    return PodUser(pod.metadata.name, pod.metadata.uid, made_by, pod.metadata.namespace)


def in_use(claim: str, pods: tuple[PodUser, ...]) -> str:
    """With the next step, where there is one command for it."""
    names = ", ".join(one.name for one in pods[:_SHOWN])
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    owners = sorted({one.owner for one in pods if one.owner})
    return f"claim {claim} is used by {'pod' if len(pods) == 1 else 'pods'} {names}{more}; {_advice(owners, pods)}"


def _advice(owners: list[str], pods: tuple[PodUser, ...]) -> str:
    where = f"-n {pods[0].namespace}" if pods else ""  # whoever pastes it may have another namespace for his own
    if len(owners) == 1:
        kind, _, name = owners[0].partition(" ")
        if kind == "StatefulSet":
            return f"scale it down: kubectl scale statefulset {name} {where} --replicas=0"
        if kind == "ReplicaSet":
            deployment = name.rpartition("-")[0] or name
            return f"scale its Deployment down: kubectl scale deployment {deployment} {where} --replicas=0"
        if kind == "VirtualMachineInstance":
            return f"stop the VM: virtctl stop {name} {where}"
    if not owners and pods:
        return f"delete it: kubectl delete pod {pods[0].name} {where}"
    return "scale down or delete what runs them"
