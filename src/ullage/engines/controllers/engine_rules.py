"""What a poll of an engine changes: the Engine's status, the Snapshot objects to make, and those to delete. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.engines.api import (
    EngineStatus,
    PurgeStatus,
    Snapshot,
    SnapshotInfo,
    SnapshotSpec,
    Volume,
    VolumeStatus,
    to_bytes,
)
from ullage.engines.chain import HEAD, Limits, PollResult, PurgeProgress
from ullage.engines.model import info_of, stamped
from ullage.errors import UllageError
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition, is_deleting, set_condition
from ullage.ledger.amounts import spell
from ullage.names import is_subdomain
from ullage.quantity import Quantity

SHOWN: Final = "SnapshotsShown"
LIMITS_SET: Final = "SnapshotLimitsSet"
HEAD_SECONDS: Final = 30.0  # the head's growth alone is worth a write this often
LARGE_SHARE: Final = 1024  # or at once, where it grew by this part of the volume
LARGE: Final = 100 * 1024**2  # or by this many bytes
TOLD: Final = 10  # names in a condition's message


# --- the Engine's status ---------------------------------------------------------------------------------------------


def polled_status(old: EngineStatus, polled: PollResult, *, volume_size: int, since_head: float) -> EngineStatus:
    """The status after a poll. Where the head's size is all that is new, and little, it is left for later: a volume that
    is written to all day would be written to the API all day. `since_head`: seconds since its size was last written."""
    snapshots = {name: info_of(entry) for name, entry in polled.entries.items()}
    before, head = (old.snapshots or {}).get(HEAD), snapshots.get(HEAD)
    if before is not None and head is not None and _differ_in_size(before, head):
        sizes = (head.size, before.size), (head.mergedsize, before.mergedsize)
        grown = max(abs(to_bytes(new) - to_bytes(known)) for new, known in sizes)
        if since_head < HEAD_SECONDS and grown < min(LARGE, max(1, volume_size // LARGE_SHARE)):
            snapshots[HEAD] = before
    return replace(
        old,
        snapshots=snapshots or None,
        snapshots_error="",
        purge_status={name: _purge(one) for name, one in polled.purges.items()} or None,
        snapshot_max_count=polled.limits.max_count,
        snapshot_max_size=str(polled.limits.max_size),
    )


def _differ_in_size(before: SnapshotInfo, head: SnapshotInfo) -> bool:
    """Whether that is all. That what is below is to be merged into it, or not any more, is more than that."""
    same_merges = bool(before.mergedsize) == bool(head.mergedsize)
    return same_merges and replace(before, size=head.size, mergedsize=head.mergedsize) == head


def _purge(one: PurgeProgress) -> PurgeStatus:
    return PurgeStatus(error=one.error, is_purging=one.purging, progress=one.progress, state=one.state)


def head_size(status: EngineStatus) -> str:
    head = (status.snapshots or {}).get(HEAD)
    return head.size if head is not None else ""


def failed_status(old: EngineStatus, problem: str) -> EngineStatus:
    """The status after a poll that failed: what was seen before stands."""
    return replace(old, snapshots_error=problem)


# --- objects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between an engine's entries and the objects of its volume."""

    missing: tuple[str, ...] = ()  # entries without an object
    stale: tuple[Snapshot, ...] = ()  # objects without an entry
    unnamable: tuple[str, ...] = ()  # entries whose names no object can have


def difference(entries: Iterable[str], objects: Iterable[Snapshot]) -> Difference:
    """`objects` are the volume's own, read before the entries were: one that was released meanwhile is not made again."""
    names, known = set(entries) - {HEAD}, {one.metadata.name: one for one in objects}
    missing = sorted(names - known.keys())
    return Difference(
        missing=tuple(name for name in missing if is_nameable(name)),
        stale=tuple(one for name, one in known.items() if name not in names and stands_for_nothing(one)),
        unnamable=tuple(name for name in missing if not is_nameable(name)),
    )


def stands_for_nothing(snapshot: Snapshot) -> bool:
    """Whether an object without an entry is to go: it only showed an entry, or its snapshot was there and is not any more.
    One whose snapshot is still to be taken stays."""
    if is_deleting(snapshot.metadata):
        return False
    return not snapshot.spec.create_snapshot or bool(snapshot.status.creation_time)


def is_nameable(name: str) -> bool:
    return is_subdomain(name)


def object_for(name: str, volume: Volume) -> Snapshot:
    """The object that shows an entry. It asks for nothing."""
    meta = Meta(name=name, namespace=volume.metadata.namespace)
    return Snapshot(metadata=stamped(meta, volume), spec=SnapshotSpec(volume=volume.metadata.name))


def shown_condition(volume: Volume, *, taken: Iterable[str], unnamable: Iterable[str], now: datetime) -> VolumeStatus:
    """Says on the volume which of its snapshots have no object, and why. Says nothing where there never was a problem."""
    status, taken, unnamable = volume.status, sorted(taken), sorted(unnamable)
    if not taken and not unnamable and find_condition(status.conditions, SHOWN) is None:
        return status
    problems = [
        *([f"other volumes have snapshots named {_listed(taken)}"] if taken else ()),
        *([f"no object can be named {_listed(unnamable)}"] if unnamable else ()),
    ]
    conditions = set_condition(
        status.conditions,
        SHOWN,
        status=not problems,
        reason="NameTaken" if taken else "NotNameable" if unnamable else "AllShown",
        message="; ".join(problems) or "every snapshot of the engine has an object",
        generation=volume.metadata.generation,
        now=now,
    )
    return status if conditions is status.conditions else replace(status, conditions=conditions)


@dataclass(frozen=True, slots=True)
class RefusedLimits:
    """Limits that an engine did not take. It is asked again once the volume wants others, or has other snapshots."""

    wanted: Limits
    kept: Limits
    used: tuple[int, int]
    problem: str
    reason: str

    @classmethod
    def of(cls, wanted: Limits, polled: PollResult, error: UllageError) -> RefusedLimits:
        return cls(wanted, polled.limits, _room(polled), str(error), str(getattr(error, "reason", "")) or "EngineError")

    def stands(self, wanted: Limits, polled: PollResult) -> bool:
        return (self.wanted, self.used) == (wanted, _room(polled))


def _room(polled: PollResult) -> tuple[int, int]:
    """What is there and not marked: how many, and how many bytes."""
    standing = [one for name, one in polled.entries.items() if name != HEAD and not one.removed]
    return len(standing), sum(one.size for one in standing)


def limits_condition(volume: Volume, status: VolumeStatus, refused: RefusedLimits | None, *, now: datetime) -> VolumeStatus:
    """Says on the volume that its limits are not the engine's, and why. Says nothing where there never was a problem."""
    if refused is None and find_condition(status.conditions, LIMITS_SET) is None:
        return status
    conditions = set_condition(
        status.conditions,
        LIMITS_SET,
        status=refused is None,
        reason="LimitsSet" if refused is None else refused.reason,
        message="the engine has the volume's limits" if refused is None else f"{_kept(refused.kept)}: {refused.problem}",
        generation=volume.metadata.generation,
        now=now,
    )
    return status if conditions is status.conditions else replace(status, conditions=conditions)


def _kept(limits: Limits) -> str:
    size = f"of {spell('storage', Quantity.of(limits.max_size))} together" if limits.max_size else "of any size"
    return f"the engine still allows {limits.max_count} snapshots {size}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return ", ".join(map(repr, names[:TOLD])) + more
