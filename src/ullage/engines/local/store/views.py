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


def view(name: str, record: Record, sizes: Mapping[str, int]) -> View:
    """`sizes` has the bytes of each layer."""
    below = tree.children(record)
    head = SnapshotRecord(parent=record.parent, created=record.created)
    layers = {**record.snapshots, HEAD: head}
    return View(
        name=name,
        size=record.size,
        head_file=head_file(record.head),
        parent=record.parent,
        chain=tuple(layer for layer in tree.chain(record) if not layers[layer].removed),
        entries={layer: _entry(layer, layers[layer], children=below[layer], size=sizes[layer]) for layer in layers},
        usage=usage(record, sizes),
        max_count=record.maxCount,
        max_size=record.maxSize,
    )


def _entry(name: str, snapshot: SnapshotRecord, *, children: frozenset[str], size: int) -> Entry:
    return Entry(
        name=name,
        parent=snapshot.parent,
        children=children,
        removed=snapshot.removed,
        user_created=snapshot.userCreated,
        created=snapshot.created,
        size=size,
        labels=snapshot.labels,
    )
