"""What a snapshot would take, as far as the API tells: no storage system is asked. Pure.

The engine's head is what the next snapshot of its volume has. Of other volumes the controller publishes what it measured last;
of those that nobody has measured, the capacity is an upper bound. Just before the cut the volume is measured again. Where a
StorageClass asks for it, the size of the volume's last snapshot is the estimate, which the next one may pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.engines.api import Engine, to_bytes
from ullage.engines.handles import SnapshotHandle
from ullage.engines.merging import merges_of
from ullage.engines.model import entries_of, entry_of, head_size
from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.ledger.charging.methods import CAPACITY, ENGINE_HEAD, ENGINE_SIZE, LAST_SNAPSHOT, RESTORE_SIZE, UNKNOWN
from ullage.snapshots.api.common import read_size
from ullage.snapshots.model import Record
from ullage.snapshots.used import read_used


@dataclass(frozen=True, slots=True)
class Estimate:
    bytes: int
    by: str  # how it was come by
    most: int | None = None  # what it may turn out to be; None: no more than `bytes`, for all that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFacts:
    """A claim and what is behind it, as far as they are there and belong to each other. `engine` is the active one."""

    claim: PersistentVolumeClaim | None = None
    volume: PersistentVolume | None = None
    engine: Engine | None = None
    unpaid: int = 0  # bytes below the engine's head that no object stands for yet


def belong_together(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """A claim may name any volume. Only one that names it, too, tells anything about it."""
    ref = volume.spec.claim_ref
    return ref is not None and ref.names(claim.metadata) and claim.spec.volume_name == volume.metadata.name


def new_snapshot(facts: VolumeFacts, *, bound: bool = False) -> Estimate:
    """Of a snapshot that is to be taken. `bound`: an estimate that the snapshot may pass will not do."""
    head = head_size(facts.engine) if facts.engine is not None else None
    if head is not None:
        return Estimate(head + facts.unpaid, ENGINE_HEAD)
    used = read_used(facts.volume.metadata) if facts.volume is not None else None
    capacity = _capacity(facts)
    if used is not None and used.by != LAST_SNAPSHOT:
        return Estimate(used.bytes, used.by)
    if used is not None and capacity is not None and not bound:
        return Estimate(min(used.bytes, capacity), LAST_SNAPSHOT, capacity)
    return Estimate(0, UNKNOWN) if capacity is None else Estimate(capacity, CAPACITY)


def existing_entry(facts: VolumeFacts, name: str) -> Estimate:
    """Of a snapshot that the engine has already. Before it shows there, it has what was the head."""
    found = _in_engine(facts.engine, name)
    return found if found is not None else new_snapshot(facts)


def imported(record: Record | None, engine: Engine | None) -> Estimate:
    """Of a snapshot that exists, and whose record an administrator has made. `engine` is that of its handle, if it has one."""
    if record is None:
        return Estimate(0, UNKNOWN)
    handle = SnapshotHandle.parse(record.handle)
    found = _in_engine(engine, handle.snapshot) if handle is not None else None
    if found is not None:
        return found
    size = record.state.restore_size
    return Estimate(0, UNKNOWN) if size is None else Estimate(size, RESTORE_SIZE)


def _in_engine(engine: Engine | None, name: str) -> Estimate | None:
    """With what a purge moves into it. One that is marked as removed takes nothing itself: its heir does."""
    if engine is None or entry_of(engine, name) is None:
        return None
    merges = merges_of(entries_of(engine), volume_size=to_bytes(engine.spec.volume_size))
    return Estimate(merges.sizes.get(name, 0), ENGINE_SIZE)


def _capacity(facts: VolumeFacts) -> int | None:
    """What the volume says of itself goes first: nobody but administrators writes there."""
    if facts.volume is not None and (found := _storage(facts.volume.spec.capacity)) is not None:
        return found
    if facts.claim is None:
        return None
    found = _storage(facts.claim.status.capacity)
    return found if found is not None else _storage(facts.claim.spec.resources.requests)


def _storage(amounts: Mapping[str, str | int]) -> int | None:
    given = amounts.get("storage")
    return None if given is None else read_size(given)
