"""What a volume shows of itself: all of one moment, as ReplicaGet answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.engines.chain import HEAD, Entry, head_file
from ullage.engines.local.store import tree
from ullage.engines.local.store.limits import Usage, usage
from ullage.engines.local.store.record import Record, SnapshotRecord


@dataclass(frozen=True, slots=True)
class View:
    """A volume at one moment."""

    name: str
    size: int  # bytes
    head_file: str
    parent: str  # of the head, "" for none
    chain: tuple[str, ...]  # from the head down, without snapshots that are marked
    entries: Mapping[str, Entry]
    usage: Usage
    max_count: int
    max_size: int  # bytes, 0 for no limit

    @property
    def remaining(self) -> int:
        """Snapshots that the count limit leaves room for."""
        return self.max_count - self.usage.count


def view(name: str, record: Record, sizes: Mapping[str, int], *, merged: Mapping[str, int]) -> View:
    """`sizes` has the bytes of each layer, `merged` those of layers that others are to be merged into."""
    layers = _layers(record)
    return View(
        name=name,
        size=record.size,
        head_file=head_file(record.head),
        parent=record.parent,
        chain=tuple(layer for layer in tree.chain(record) if not layers[layer].removed),
        entries=entries(record, sizes, merged=merged),
        usage=usage(record, sizes),
        max_count=record.maxCount,
        max_size=record.maxSize,
    )


def entries(record: Record, sizes: Mapping[str, int], *, merged: Mapping[str, int] | None = None) -> dict[str, Entry]:
    below, whole = tree.children(record), merged or {}
    return {
        name: _entry(name, layer, children=below[name], size=sizes[name], merged=whole.get(name))
        for name, layer in _layers(record).items()
    }


def _layers(record: Record) -> dict[str, SnapshotRecord]:
    return {**record.snapshots, HEAD: SnapshotRecord(parent=record.parent, created=record.created)}


def _entry(name: str, snapshot: SnapshotRecord, *, children: frozenset[str], size: int, merged: int | None) -> Entry:
    return Entry(
        name=name,
        parent=snapshot.parent,
        children=children,
        removed=snapshot.removed,
        user_created=snapshot.userCreated,
        created=snapshot.created,
        size=size,
        merged=merged,
        labels=snapshot.labels,
    )
