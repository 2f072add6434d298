"""Snapshots, Volumes and Engines in the terms of decisions: which belongs to which, and what their statuses say. Pure.

Controllers and the webhook decide with these; what only one of them needs stands in its own `rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from ullage.engines.api import (
    DEFAULT_MAX_COUNT,
    FINALIZER,
    GROUP,
    RUNNING,
    VOLUME_LABEL,
    VOLUMES,
    Engine,
    Snapshot,
    SnapshotInfo,
    SnapshotStatus,
    Volume,
    to_bytes,
)
from ullage.engines.chain import HEAD, Entry, Limits
from ullage.engines.merging import merges_of
from ullage.kube.kinds import Meta, Object, OwnerReference
from ullage.kube.objects import (
    Condition,
    find_condition,
    is_deleting,
    is_true,
    owner_reference,
    with_finalizer,
)

FAILED: Final = "Failed"
LOGICALLY_REMOVED: Final = "LogicallyRemoved"

# --- whose it is -----------------------------------------------------------------------------------------------------


def volume_reference(meta: Meta) -> OwnerReference | None:
    """The owner that is a Volume. Its uid tells a volume from a later one of the same name."""
    return next((one for one in meta.owner_references if one.kind == "Volume" and _group(one.api_version) == GROUP), None)


def belongs_to(snapshot: Snapshot, volume: Volume) -> bool:
    """Whether it is a snapshot of this very volume. One that nobody has stamped yet goes by the volume's name."""
    reference = volume_reference(snapshot.metadata)
    if reference is None:
        return snapshot.spec.volume == volume.metadata.name
    return reference.uid == volume.metadata.uid


def stamped(meta: Meta, volume: Volume) -> Meta:
    """The metadata with finalizer, label and owner: what holds a snapshot, finds it, and ties it to this very volume."""
    new = with_finalizer(meta, FINALIZER)
    if meta.labels.get(VOLUME_LABEL) != volume.metadata.name:
        new = replace(new, labels={**meta.labels, VOLUME_LABEL: volume.metadata.name})
    wanted = owner_reference(VOLUMES, volume.metadata)
    if volume_reference(meta) != wanted:
        others = tuple(one for one in meta.owner_references if one != volume_reference(meta))
        new = replace(new, owner_references=(*others, wanted))
    return new


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


# --- what the engine says --------------------------------------------------------------------------------------------


def entry_of(engine: Engine | None, name: str) -> SnapshotInfo | None:
    """What the engine was last seen to have under this name."""
    return (engine.status.snapshots or {}).get(name) if engine is not None else None


def live_chain(entries: Mapping[str, SnapshotInfo]) -> list[str]:
    """From the head down to the first snapshot: what the volume is made of now. A loop ends it."""
    found: dict[str, None] = {}
    name = HEAD
    while name in entries and name not in found:
        found[name] = None
        name = entries[name].parent
    return list(found)


def head_size(engine: Engine) -> int | None:
    """The bytes that the next snapshot takes, as the engine was last seen: what was written since the last one, and what is
    left of removed ones right below, which a purge moves into it. None: that is not known."""
    head = entry_of(engine, HEAD)
    if head is None or not (head.size.isascii() and head.size.isdigit()):
        return None
    return next_size(entries_of(engine), volume_size=to_bytes(engine.spec.volume_size))


def kept_below(engine: Engine) -> dict[str, int]:
    """What the volume is made of now, its head apart: the snapshots that stay, with the bytes that each will have."""
    chain = live_chain(engine.status.snapshots or {})
    sizes = merges_of(entries_of(engine), volume_size=to_bytes(engine.spec.volume_size)).sizes
    return {name: sizes[name] for name in chain if name != HEAD and name in sizes}


def summed_size(engine: Engine | None) -> int:
    """The bytes of removed snapshots in `head_size` that may be blocks of the head, too: the engine tells sizes only."""
    head = entry_of(engine, HEAD)
    if engine is None or head is None or head.mergedsize:
        return 0
    return max(0, (head_size(engine) or 0) - to_bytes(head.size))


def next_size(entries: Mapping[str, Entry], *, volume_size: int = 0) -> int:
    """The same of an engine that was asked right now."""
    return merges_of(entries, volume_size=volume_size).sizes[HEAD]


def active_engine(engines: Iterable[Engine]) -> Engine | None:
    """The one that serves a volume: while it migrates there are two. Where they do not say which, the one with the larger
    head: what it has is never counted too low then."""
    found = list(engines)
    candidates = [one for one in found if one.spec.active] or found
    if len(candidates) == 1:
        return candidates[0]  # nearly always: to look at all its snapshots would be for nothing
    return max(candidates, key=lambda one: (head_size(one) or 0, one.metadata.name), default=None)


def is_purging(engine: Engine) -> bool:
    """Whether removed snapshots are being merged away, as it was last seen to say."""
    return any(one.is_purging for one in (engine.status.purge_status or {}).values())


def is_running(engine: Engine | None) -> bool:
    return engine is not None and engine.status.current_state == RUNNING


def instance_address(engine: Engine) -> str:
    """Where a real engine listens while it runs; empty: nowhere that it says."""
    ip, port = engine.status.ip, engine.status.port
    if not is_running(engine) or not ip or not port:
        return ""
    return f"tcp://[{ip}]:{port}" if ":" in ip else f"tcp://{ip}:{port}"


def is_parent_of_head(children: Mapping[str, bool] | None) -> bool:
    """Whether what is being written now is all that was taken after it: such a snapshot can be marked, and no more."""
    return bool(children) and set(children or ()) == {HEAD}


def entries_of(engine: Engine) -> dict[str, Entry]:
    """What it was last seen to have, as it would say itself."""
    return {name: _entry(name, one) for name, one in (engine.status.snapshots or {}).items()}


def _entry(name: str, info: SnapshotInfo) -> Entry:
    return Entry(
        name=name,
        parent=info.parent,
        children=frozenset(info.children or ()),
        removed=info.removed,
        user_created=info.usercreated,
        created=info.created,
        size=to_bytes(info.size),
        merged=to_bytes(info.mergedsize) if info.mergedsize.isascii() and info.mergedsize.isdigit() else None,
        labels=info.labels or {},
    )


def info_of(entry: Entry) -> SnapshotInfo:
    return SnapshotInfo(
        name=entry.name,
        parent=entry.parent,
        children=dict.fromkeys(sorted(entry.children), True) or None,
        removed=entry.removed,
        usercreated=entry.user_created,
        created=entry.created,
        size=str(entry.size),
        mergedsize="" if entry.merged is None else str(entry.merged),
        labels=dict(entry.labels) or None,
    )


# --- what a Snapshot says ---------------------------------------------------------------------------------------------


def has_failed(status: SnapshotStatus) -> bool:
    return is_true(status.conditions, FAILED)


def blocked_before(status: SnapshotStatus) -> Condition | None:
    found = find_condition(status.conditions, LOGICALLY_REMOVED)
    return found if found is not None and found.status == "True" else None


# --- limits ----------------------------------------------------------------------------------------------------------


def wanted_limits(volume: Volume) -> Limits:
    return Limits(
        max_count=volume.spec.snapshot_max_count or DEFAULT_MAX_COUNT, max_size=to_bytes(volume.spec.snapshot_max_size)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotUsage:
    """What counts for the limits, as the engine was last seen: not what is marked as removed."""

    count: int = 0  # snapshots
    size: int = 0  # bytes in those of the live chain
    head: int = 0  # bytes in the head: what the next snapshot takes


def usage_of(engine: Engine | None) -> SnapshotUsage:
    entries = (engine.status.snapshots or {}) if engine is not None else {}
    standing = {name: one for name, one in entries.items() if name != HEAD and not one.removed}
    return SnapshotUsage(
        count=len(standing),
        size=sum(to_bytes(standing[name].size) for name in live_chain(entries) if name in standing),
        head=to_bytes(entries[HEAD].size) if HEAD in entries else 0,
    )


# --- what is seen of them --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """What is seen of a snapshot. `volume` is the very one that it belongs to, `engine` its only engine."""

    snapshot: Snapshot
    volume: Volume | None = None
    engine: Engine | None = None
    migrating: bool = False  # there are two engines


def comes_or_goes(old: Object | None, new: Object | None) -> bool:
    """Whether a change is that an object is created, begins to be deleted, or is gone."""
    return old is None or new is None or is_deleting(old.metadata) != is_deleting(new.metadata)
