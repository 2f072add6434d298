"""Pods as our controllers watch them: all of a cluster, so no more of each than somebody needs, and one kind for all of them.

Two slices that watched different parts of pods would have each pod twice in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.kube.builtin.core import PodVolume, VolumeMount
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Object, Value
from ullage.pods.resources import Amounts, Side, parsed


class PodResources(Value):
    requests: Mapping[str, str | int | float] = {}
    limits: Mapping[str, str | int | float] = {}

    def amounts(self, side: Side) -> Amounts:
        """What is not limited counts as what is asked for: it is the least that it may use."""
        asked = parsed(self.requests)
        return {**asked, **parsed(self.limits)} if side == "limits" else asked


class PodContainer(Value):
    name: str = ""
    restart_policy: str = ""
    resources: PodResources = PodResources()
    volume_mounts: tuple[VolumeMount, ...] = ()


class WatchedPodSpec(Value):
    """Ephemeral containers are left out: they can neither ask for anything nor be limited."""

    containers: tuple[PodContainer, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()
    resources: PodResources = PodResources()
    overhead: Mapping[str, str | int | float] = {}
    volumes: tuple[PodVolume, ...] = ()


class WatchedPodStatus(Value):
    phase: str = ""


class WatchedPod(Object):
    spec: WatchedPodSpec = WatchedPodSpec()
    status: WatchedPodStatus = WatchedPodStatus()

    @property
    def claims(self) -> tuple[Key, ...]:
        """The claims that its volumes name."""
        named = (volume.persistent_volume_claim for volume in self.spec.volumes)
        return tuple(Key(self.metadata.namespace, source.claim_name) for source in named if source is not None)

    @property
    def is_over(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


WATCHED_PODS: Final = Kind("", "v1", "Pod", "pods", WatchedPod, whole=False)
