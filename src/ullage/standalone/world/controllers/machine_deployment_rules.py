"""A MachineDeployment: which MachineSets it has, and how many Machines each is to have now. Pure.

Each template has a set of its own, with a revision. Where the template changes the machines of the new one come and those of
the old ones go step by step: there are never more than `replicas + maxSurge` that are wanted, and, as far as that can be
helped, never fewer than `replicas - maxUnavailable` that are ready. Machines that are refused hold it up; they are not given
up on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.objects import Json, is_deleting, owner_reference
from ullage.projects.api.machines import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MachineDeployment,
    MachineDeploymentStatus,
    MachineSet,
)
from ullage.projects.machines.reading import REVISION, ROLLING, TEMPLATE_HASH, template_digest
from ullage.projects.machines.surge import max_surge_of

DEFAULT_REPLICAS: Final = 1
HISTORY: Final = 1  # sets of earlier templates that stay when they are empty
_HASH_LENGTH: Final = 10
_PERCENT: Final = re.compile(r"([0-9]{1,9})%")


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """`create` is the set of a template that has none; `scale` is by name; `revision` is what the newest set is to be marked
    with where it is not."""

    status: MachineDeploymentStatus
    create: Json | None = None
    scale: Mapping[str, int] | None = None
    revision: tuple[MachineSet, str] | None = None
    delete: tuple[MachineSet, ...] = ()
    unsupported: str = ""  # a strategy that is not played


def plan_deployment(found: MachineDeployment, template: Any, sets: Sequence[MachineSet]) -> DeploymentPlan | None:
    """None: it is being deleted. `template` is the whole `spec.template` as the API has it; `sets` are those that it controls.
    Raises BadSpec for a template that cannot be told from others."""
    if is_deleting(found.metadata):
        return None
    mark = template_hash(template)
    live = [one for one in sets if not is_deleting(one.metadata)]
    newest = next((one for one in live if one.metadata.labels.get(TEMPLATE_HASH) == mark), None)
    old = sorted((one for one in live if one is not newest), key=revision_of)
    status = status_of(found, newest, live)
    if found.spec.paused:
        return DeploymentPlan(status)
    if _total(old) and found.spec.strategy is not None and found.spec.strategy.type not in ROLLING:
        return DeploymentPlan(status, unsupported=found.spec.strategy.type)
    highest = max((revision_of(one) for one in live), default=0)
    if newest is None:
        first = _grown(found, 0, _total(old))
        return DeploymentPlan(status, create=set_for(found, template, revision=highest + 1, replicas=first))
    if revision_of(newest) < highest or not revision_of(newest):
        return DeploymentPlan(status, revision=(newest, str(highest + 1)))
    return DeploymentPlan(status, scale=dict(_steps(found, newest, old)), delete=tuple(_surplus_sets(old)))


def _steps(found: MachineDeployment, newest: MachineSet, old: Sequence[MachineSet]) -> Iterator[tuple[str, int]]:
    """The sets that are to have another number now. Old ones go down before the new one grows, where both can be."""
    wanted, total = replicas_of(found), _total(old) + _wanted(newest)
    now = _wanted(newest)
    if old_sets := [one for one in old if _wanted(one)]:
        fewest = wanted - max_unavailable(found)
        missing = now - min(now, newest.status.ready_replicas)
        room = total - fewest - missing
        yield from _shrunk(old_sets, room, ready_room=_ready([newest, *old]) - fewest)
    grown = min(now, wanted) if now >= wanted else _grown(found, now, total - now)
    if grown != now:
        yield newest.metadata.name, grown


def _grown(found: MachineDeployment, now: int, others: int) -> int:
    """How many the newest set is to have, with so many in the others."""
    wanted = replicas_of(found)
    most = wanted + (max_surge(found) if others else 0)
    return max(now, min(wanted, most - others))


def _shrunk(old: Sequence[MachineSet], room: int, *, ready_room: int) -> Iterator[tuple[str, int]]:
    """First machines that are not ready anyway, then ready ones as far as enough of them are left; the oldest set first."""
    for one in old:
        if room <= 0:
            return
        count = _wanted(one)
        ready = min(count, one.status.ready_replicas)
        broken = min(room, count - ready)
        whole = max(0, min(room - broken, ready, ready_room))
        room, ready_room = room - broken - whole, ready_room - whole
        if broken + whole:
            yield one.metadata.name, count - broken - whole


def _surplus_sets(old: Sequence[MachineSet]) -> list[MachineSet]:
    empty = [one for one in old if not _wanted(one) and not one.status.replicas]
    return empty[: max(0, len(empty) - HISTORY)]


def status_of(found: MachineDeployment, newest: MachineSet | None, sets: Sequence[MachineSet]) -> MachineDeploymentStatus:
    return MachineDeploymentStatus(
        observed_generation=found.metadata.generation,
        replicas=sum(one.status.replicas for one in sets),
        updated_replicas=newest.status.replicas if newest is not None else 0,
        ready_replicas=_ready(sets),
    )


# --- what a set is ---------------------------------------------------------------------------------------------------


def set_for(found: MachineDeployment, template: Any, *, revision: int, replicas: int) -> Json:
    """The set of a template: the label is what tells its machines from those of others."""
    mark = {TEMPLATE_HASH: template_hash(template)}
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **mark}
    return {
        "apiVersion": MACHINE_SETS.api_version,
        "kind": MACHINE_SETS.kind,
        "metadata": {
            "name": f"{found.metadata.name}-{mark[TEMPLATE_HASH]}",
            "namespace": found.metadata.namespace,
            "labels": labels,
            "annotations": {REVISION: str(revision)},
            "ownerReferences": [owner_reference(MACHINE_DEPLOYMENTS, found.metadata, controller=True)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {**found.spec.selector.match_labels, **mark}},
            "template": {**template, "metadata": {**meta, "labels": labels}},
        },
    }


def template_hash(template: Any) -> str:
    return template_digest(template)[:_HASH_LENGTH]


def revision_of(one: MachineSet) -> int:
    """0: it has none that is a number."""
    written = one.metadata.annotations.get(REVISION, "")
    return int(written) if written.isascii() and written.isdecimal() and len(written) < 19 else 0


# --- how many --------------------------------------------------------------------------------------------------------


def replicas_of(found: MachineDeployment) -> int:
    return DEFAULT_REPLICAS if found.spec.replicas is None else max(0, found.spec.replicas)


def max_surge(found: MachineDeployment) -> int:
    rolling = found.spec.strategy.rolling_update if found.spec.strategy is not None else None
    return max_surge_of(rolling.max_surge if rolling is not None else None, replicas_of(found))


def max_unavailable(found: MachineDeployment) -> int:
    """A number, or a percentage of the replicas, rounded down; 0 where it is not said. Where there may be no more and no fewer
    one may be missing: otherwise nothing could ever be replaced."""
    rolling = found.spec.strategy.rolling_update if found.spec.strategy is not None else None
    written = rolling.max_unavailable if rolling is not None else None
    count = written if isinstance(written, int) else 0
    if isinstance(written, str) and (percent := _PERCENT.fullmatch(written)):
        count = int(percent[1]) * replicas_of(found) // 100
    least = 1 if max_surge(found) == 0 else 0
    return min(max(count, least), replicas_of(found))


def _wanted(one: MachineSet) -> int:
    return DEFAULT_REPLICAS if one.spec.replicas is None else max(0, one.spec.replicas)


def _total(sets: Sequence[MachineSet]) -> int:
    return sum(map(_wanted, sets))


def _ready(sets: Sequence[MachineSet]) -> int:
    return sum(min(_wanted(one), one.status.ready_replicas) for one in sets)
