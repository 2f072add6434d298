"""Which commands are to be run in which pods for a cut of these claims. Pure.

A pod counts if it runs and mounts one of the claims. If it has annotations of its own about hooks, those hold for it; otherwise
what the snapshot, schedule or group says. One run has one pair of commands in one pod, whichever of the claims it is for; the
preset has one for each claim, since each is a file system of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ullage.errors import BadInput
from ullage.kube.builtin.watched_pods import PodContainer, WatchedPod
from ullage.kube.objects import is_deleting
from ullage.policies.cut_hooks.api import FSFREEZE, HookCommand, HookSpec
from ullage.policies.cut_hooks.pod_annotations import pod_hooks
from ullage.policies.cut_hooks.run import HookRunSpec
from ullage.snapshots.model import Problem

INVALID = "HookInvalid"
MOST_RUNS = 500  # for one cut: they are begun one after the other


@dataclass(frozen=True, slots=True)
class WantedRun:
    name: str
    spec: HookRunSpec  # without holders


def wanted_runs(pods: Iterable[WatchedPod], claims: frozenset[str], spec: HookSpec | None) -> list[WantedRun] | Problem:
    """All that are to be run, in the order of their names: whoever takes several takes them in this order."""
    found: dict[str, WantedRun] = {}
    for pod in pods:
        if not takes_part(pod):
            continue
        try:
            for one in _of_pod(pod, claims, spec):
                found[one.name] = one
        except BadInput as error:
            return Problem(INVALID, f"pod {pod.metadata.name}: {error}")
        if len(found) > MOST_RUNS:
            return Problem(INVALID, f"more than {MOST_RUNS} commands would be run before this cut: fewer pods may have hooks")
    return [found[name] for name in sorted(found)]


def takes_part(pod: WatchedPod) -> bool:
    return pod.status.phase == "Running" and not is_deleting(pod.metadata)


def is_hooked(pods: Iterable[WatchedPod], spec: HookSpec | None) -> bool:
    """Whether a snapshot of a claim that these pods mount has to wait for hooks; if what a pod says makes no sense, it has to,
    since somebody must tell."""
    for pod in pods:
        if takes_part(pod):
            try:
                if pod_hooks(pod.metadata.annotations) or spec:
                    return True
            except BadInput:
                return True
    return False


def _of_pod(pod: WatchedPod, claims: frozenset[str], spec: HookSpec | None) -> Iterator[WantedRun]:
    asked = pod_hooks(pod.metadata.annotations) or spec
    mounted = {
        volume.name: source.claim_name
        for volume in pod.spec.volumes
        if (source := volume.persistent_volume_claim) is not None and source.claim_name in claims
    }
    if not asked or not mounted:
        return
    if asked.preset == FSFREEZE:
        for name in sorted(mounted):
            yield _frozen(pod, name, asked)
        return
    pre, post = (_placed(pod, one, frozenset(mounted)) for one in (asked.pre, asked.post))
    yield _run(pod, pre, post, asked.max_freeze_seconds)


def _frozen(pod: WatchedPod, volume: str, asked: HookSpec) -> WantedRun:
    for container in pod.spec.containers:
        for mount in container.volume_mounts:
            if mount.name == volume and not mount.read_only and not mount.sub_path and not mount.sub_path_expr:
                path = mount.mount_path
                pre = HookCommand(command=(FSFREEZE, "--freeze", path), container=container.name)
                post = HookCommand(command=(FSFREEZE, "--unfreeze", path), container=container.name)
                return _run(pod, pre, post, asked.max_freeze_seconds)
    raise BadInput(
        "preset", FSFREEZE, f"no container mounts the whole of volume {volume} for writing, so nothing can freeze it"
    )


def _placed(pod: WatchedPod, one: HookCommand | UnsetType, volumes: frozenset[str]) -> HookCommand | UnsetType:
    if one is UNSET:
        return UNSET
    names = [container.name for container in pod.spec.containers]
    if one.container and one.container not in names:
        raise BadInput("container", one.container, f"there is none of this name; allowed are {', '.join(names)}")
    found = one.container or next((each.name for each in pod.spec.containers if _mounts(each, volumes)), names[0])
    return replace(one, container=found)


def _mounts(container: PodContainer, volumes: frozenset[str]) -> bool:
    return any(mount.name in volumes for mount in container.volume_mounts)


def _run(pod: WatchedPod, pre: HookCommand | UnsetType, post: HookCommand | UnsetType, freeze: int) -> WantedRun:
    meta = pod.metadata
    spec = HookRunSpec(namespace=meta.namespace, pod=meta.name, pod_uid=meta.uid, pre=pre, post=post, max_freeze_seconds=freeze)
    digest = sha256(msgspec.json.encode((meta.uid, pre if pre else None, post if post else None))).hexdigest()
    return WantedRun(f"hook-{digest[:32]}", spec)


def excludes(one: HookRunSpec, other: HookRunSpec) -> bool:
    """Whether two runs of a pod must not be under way at the same time: the post command of the one could undo the pre command
    of the other. Two presets freeze two file systems."""
    if one.pod_uid != other.pod_uid:
        return False
    return not (_path(one) and _path(other) and _path(one) != _path(other))


def _path(spec: HookRunSpec) -> str:
    pre = spec.pre
    return pre.command[2] if pre is not UNSET and pre.command[:2] == (FSFREEZE, "--freeze") and len(pre.command) == 3 else ""
