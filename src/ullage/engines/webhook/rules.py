"""What is wrong with a Snapshot that somebody creates: a chain of small rules, each a pure function of the facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUME_LABEL, Engine, Snapshot, Volume
from ullage.engines.chain import HEAD
from ullage.engines.client.errors import Reason
from ullage.engines.model import has_failed, usage_of, wanted_limits
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import spell
from ullage.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Fault:
    """Where, and what is wrong there. `limit`: the object is right, but there is no room for it, and what to do then."""

    field: str
    problem: str
    limit: Reason | None = None
    next_step: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A Snapshot that is to be made, and what it meets."""

    snapshot: Snapshot
    system: bool = False  # our own identities ask
    volume: Volume | None = None
    engine: Engine | None = None
    others: Sequence[Snapshot] = ()  # of the volume
    admitted: Sequence[str] = ()  # likewise: let in a moment ago, and not among the others yet
    users: Sequence[str] = ()  # other volumes that have a snapshot of this name


Rule = Callable[[Creation], Fault | None]


def volume_is_there(asked: Creation) -> Fault | None:
    name = asked.snapshot.spec.volume
    if not name:
        return Fault("spec.volume", "is required: the name of the volume to take a snapshot of")
    if asked.volume is None:
        return Fault("spec.volume", f"volume {name!r} does not exist in namespace {asked.snapshot.metadata.namespace}")
    if is_deleting(asked.volume.metadata):
        return Fault("spec.volume", f"volume {name!r} is being deleted, and its snapshots with it")
    return None


def name_is_allowed(asked: Creation) -> Fault | None:
    if asked.snapshot.metadata.name == HEAD:
        return Fault("metadata.name", f"{HEAD} is what the volume writes to; any other name is allowed")
    return None


def name_is_free(asked: Creation) -> Fault | None:
    name = asked.snapshot.metadata.name
    if asked.users:
        whose = ", ".join(sorted(asked.users))
        return Fault("metadata.name", f"{name!r} is the name of a snapshot of volume {whose}; choose another")
    return None


def labels_are_allowed(asked: Creation) -> Fault | None:
    for key, value in (asked.snapshot.spec.labels or {}).items():
        if "=" in key or "=" in value:
            return Fault(f"spec.labels[{key}]", f"{key!r}: {value!r} has a '=', which engines cannot keep in labels")
    return None


def asks_for_one(asked: Creation) -> Fault | None:
    if asked.system or asked.snapshot.spec.create_snapshot:
        return None
    return Fault(
        "spec.createSnapshot",
        "false stands for a snapshot that the engine has already, and only the system creates those; "
        "to take a snapshot, leave it out or set it to true",
    )


def within_count(asked: Creation) -> Fault | None:
    """Snapshots that were asked for and are not taken yet count too: they were promised. Whoever asks: the controller takes
    what tenants ask for with a VolumeSnapshot."""
    if not asked.snapshot.spec.create_snapshot or asked.volume is None:
        return None
    limit, name = wanted_limits(asked.volume).max_count, asked.volume.metadata.name
    there, awaited = usage_of(asked.engine).count, len(pending(asked))
    if there + awaited < limit:
        return None
    coming = f" and {awaited} being taken" if awaited else ""
    has = f"{there} snapshot{'' if there == 1 else 's'}{coming}"
    problem = f"volume {name} has {has}, and {limit} are allowed (snapshotMaxCount)"
    return Fault("spec.volume", problem, limit=Reason.COUNT_LIMIT, next_step=_next(asked.volume))


def within_size(asked: Creation) -> Fault | None:
    """With the head as it is now, which is what a snapshot takes: as the engine itself counts."""
    if not asked.snapshot.spec.create_snapshot or asked.volume is None:
        return None
    limit, used = wanted_limits(asked.volume).max_size, usage_of(asked.engine)
    if not limit or used.size + used.head <= limit:
        return None
    over = used.size + used.head - limit
    problem = (
        f"snapshots of volume {asked.volume.metadata.name} take {spelled(used.size)}, this one would take "
        f"{spelled(used.head)}, and {spelled(limit)} are allowed (snapshotMaxSize): {spelled(over)} too many"
    )
    return Fault("spec.volume", problem, limit=Reason.SIZE_LIMIT, next_step=_next(asked.volume))


CREATING: Final[tuple[Rule, ...]] = (
    volume_is_there,  # a snapshot of a missing volume is a typo: say so first
    name_is_allowed,
    name_is_free,
    labels_are_allowed,
    asks_for_one,
    within_count,
    within_size,
)


def creation_fault(asked: Creation) -> Fault | None:
    return next((fault for rule in CREATING if (fault := rule(asked))), None)


def pending(asked: Creation) -> set[str]:
    """Those that were asked for, and that the engine does not show yet."""
    entries = (asked.engine.status.snapshots or {}) if asked.engine is not None else {}
    promised = {one.metadata.name for one in asked.others if _is_promised(one)}
    return {name for name in promised.union(asked.admitted) if name not in entries} - {asked.snapshot.metadata.name}


def _is_promised(snapshot: Snapshot) -> bool:
    """Whether it is being taken, or was and is there: one that was taken and is not ready is lost."""
    status = snapshot.status
    coming = not status.creation_time or status.ready_to_use is True
    return snapshot.spec.create_snapshot and coming and not is_deleting(snapshot.metadata) and not has_failed(status)


def _next(volume: Volume) -> str:
    meta = volume.metadata
    return f"delete some first: {list_command(meta.namespace, meta.name)}"


def list_command(namespace: str, volume: str) -> str:
    """What a person types to see the snapshots of a volume."""
    return f"kubectl get {ENGINE_SNAPSHOTS.name} -n {namespace} -l {VOLUME_LABEL}={volume}"


def spelled(count: int) -> str:
    return spell("storage", Quantity.of(count))
