"""Which commands are to be run in which pods for a cut of these claims. Pure.

A pod counts if it runs and mounts one of the claims. If it has annotations of its own about hooks, those hold for it; otherwise
what the snapshot, schedule or group says. One run has one pair of commands in one pod, whichever of the claims it is for.

The preset has one for each claim, however many pods mount it: what is frozen is the file system, and one that is frozen cannot
be frozen again. Any pod that mounts it can do that, and thaw what another one has left.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ullage.errors import BadInput
from ullage.kube.builtin.watched_pods import PodContainer, WatchedPod
from ullage.kube.objects import is_deleting
from ullage.policies.cut_hooks.api import FSFREEZE, HookCommand, HookSpec
from ullage.policies.cut_hooks.pod_annotations import PRESET, pod_hooks
from ullage.policies.cut_hooks.run import HookRunSpec
from ullage.snapshots.model import Problem

INVALID = "HookInvalid"
MOST_RUNS = 500  # for one cut: they are begun one after the other


@dataclass(frozen=True, slots=True)
class WantedRun:
    name: str
    spec: HookRunSpec  # without holders


@dataclass(frozen=True, slots=True)
class ThawPlace:
    """Where else than in its own pod a post command can be run."""

    pod: str
    command: HookCommand


def wanted_runs(
    pods: Iterable[WatchedPod], claims: frozenset[str], spec: HookSpec | None, *, under_way: Container[str] = ()
) -> list[WantedRun] | Problem:
    """All that are to be run, in the order of their names: whoever takes several takes them in this order. Of several pods that
    could freeze a claim it is the one whose run is under way, or else the first."""
    found: dict[str, WantedRun] = {}
    freezers: dict[str, list[_Freezer]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if not takes_part(pod):
            continue
        try:
            asked = pod_hooks(pod.metadata.annotations) or spec
            if asked and asked.preset == FSFREEZE:
                for claim in _mounted(pod, claims):
                    freezers.setdefault(claim, []).append(_freezer(pod, claim, asked))
            elif asked and (one := _of_pod(pod, claims, asked)) is not None:
                found[one.name] = one
        except BadInput as error:
            return Problem(INVALID, f"pod {pod.metadata.name}: {error}")
        if len(found) + len(freezers) > MOST_RUNS:
            return Problem(INVALID, f"more than {MOST_RUNS} commands would be run before this cut: fewer pods may have hooks")
    for claim, some in freezers.items():
        able = sorted((one for one in some if one.run is not None), key=lambda one: not one.whole)
        if not able:
            return Problem(INVALID, _nobody_writes(claim, [one.pod for one in some]))
        runs = [one.run for one in able if one.run is not None]
        chosen = next((one for one in runs if one.name in under_way), runs[0])
        found[chosen.name] = chosen
    return [found[name] for name in sorted(found)]


def _nobody_writes(claim: str, pods: list[str]) -> str:
    shown = ", ".join(pods[:5]) + (", …" if len(pods) > 5 else "")
    return (
        f"claim {claim}: preset {FSFREEZE}: no pod that is to freeze it mounts it for writing ({shown}); "
        f"have one that does declare {PRESET}, or leave the preset out"
    )


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


def thaw_places(run: HookRunSpec, pods: Iterable[WatchedPod]) -> tuple[ThawPlace, ...]:
    """Where the file system of a preset can be thawed when its pod is gone: in each pod that runs and mounts the claim, for
    reading too, those that stay first."""
    if not run.claim or run.post is UNSET:
        return ()
    running = (pod for pod in pods if pod.status.phase == "Running" and pod.metadata.namespace == run.namespace)
    found = []
    for pod in sorted(running, key=lambda pod: (is_deleting(pod.metadata), pod.metadata.name)):
        mounts = sorted(_mounts_of(pod, run.claim), key=lambda one: (not one.writes, not one.whole))
        for mount in mounts[:1]:
            found.append(ThawPlace(pod.metadata.name, _fsfreeze("--unfreeze", mount)))
    return tuple(found)


def _of_pod(pod: WatchedPod, claims: frozenset[str], asked: HookSpec) -> WantedRun | None:
    mounted = _mounted(pod, claims)
    if not mounted:
        return None
    volumes = frozenset(volume for some in mounted.values() for volume in some)
    pre, post = (_placed(pod, one, volumes) for one in (asked.pre, asked.post))
    return _run(pod, pre, post, asked.max_freeze_seconds)


def _mounted(pod: WatchedPod, claims: Container[str]) -> dict[str, list[str]]:
    """By claim: the volumes of the pod that are it."""
    found: dict[str, list[str]] = {}
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name in claims:
            found.setdefault(source.claim_name, []).append(volume.name)
    return found


# --- the preset -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mount:
    container: str
    path: str
    writes: bool
    whole: bool  # a part of the volume is of the same file system, but may be a file, which fsfreeze does not take


@dataclass(frozen=True, slots=True)
class _Freezer:
    pod: str
    run: WantedRun | None  # None: it mounts the claim for reading
    whole: bool = False


def _freezer(pod: WatchedPod, claim: str, asked: HookSpec) -> _Freezer:
    mount = min((one for one in _mounts_of(pod, claim) if one.writes), key=lambda one: not one.whole, default=None)
    if mount is None:
        return _Freezer(pod.metadata.name, None)
    pre, post = (_fsfreeze(verb, mount) for verb in ("--freeze", "--unfreeze"))
    return _Freezer(pod.metadata.name, _run(pod, pre, post, asked.max_freeze_seconds, claim=claim), mount.whole)


def _mounts_of(pod: WatchedPod, claim: str) -> Iterator[_Mount]:
    read_only = {
        volume.name: source.read_only
        for volume in pod.spec.volumes
        if (source := volume.persistent_volume_claim) is not None and source.claim_name == claim
    }
    for container in pod.spec.containers:
        for mount in container.volume_mounts:
            if mount.name in read_only:
                writes = not (mount.read_only or read_only[mount.name])
                yield _Mount(container.name, mount.mount_path, writes, not (mount.sub_path or mount.sub_path_expr))


def _fsfreeze(verb: str, mount: _Mount) -> HookCommand:
    return HookCommand(command=(FSFREEZE, verb, mount.path), container=mount.container)


# --- commands of one's own --------------------------------------------------------------------------------------------


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


def _run(
    pod: WatchedPod, pre: HookCommand | UnsetType, post: HookCommand | UnsetType, freeze: int, *, claim: str = ""
) -> WantedRun:
    meta = pod.metadata
    spec = HookRunSpec(
        namespace=meta.namespace,
        pod=meta.name,
        pod_uid=meta.uid,
        pre=pre,
        post=post,
        max_freeze_seconds=freeze,
        claim=claim,
    )
    digest = sha256(msgspec.json.encode((meta.uid, pre if pre else None, post if post else None))).hexdigest()
    return WantedRun(f"hook-{digest[:32]}", spec)


def excludes(one: HookRunSpec, other: HookRunSpec) -> bool:
    """Whether two runs must not be under way at the same time: the post command of the one could undo the pre command of the
    other. Presets meet where they freeze the same file system, in whichever pods; other commands in their pod."""
    if one.claim and other.claim:
        return (one.namespace, one.claim) == (other.namespace, other.claim)
    return one.pod_uid == other.pod_uid
