"""The snapshots of a volume as a tree, and what a purge could free of them. Pure.

What an engine says is taken as it is, and may not fit together: an entry whose parent is missing begins a tree of its own, and
one that is in a loop is shown last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from ullage.engines.api import SnapshotInfo, to_bytes
from ullage.engines.chain import HEAD
from ullage.engines.model import live_chain

Entries = Mapping[str, SnapshotInfo]


@dataclass(frozen=True, slots=True)
class Line:
    """One entry, in the order and with the marks of a tree: what builds on it follows. Side branches are set off, and what
    leads to the head is not, however long that is."""

    entry: SnapshotInfo
    prefix: str = ""
    loose: bool = False  # it is in a loop: nothing leads to it


def lines(entries: Entries) -> list[Line]:
    named = {name: one if one.name else replace(one, name=name) for name, one in entries.items()}
    children = children_of(named)
    to_head = set(live_chain(named))
    found: list[Line] = []
    for root in _in_order(named, (name for name, one in named.items() if one.parent not in named)):
        found += _branch(named, children, root, to_head=to_head)
    seen = {line.entry.name for line in found}
    return found + [Line(named[name], loose=True) for name in sorted(set(named) - seen)]


def children_of(entries: Entries) -> dict[str, list[str]]:
    """By what each says of its parent."""
    found: dict[str, list[str]] = {name: [] for name in entries}
    for name, one in entries.items():
        if one.parent in found:
            found[one.parent].append(name)
    return found


def _branch(
    entries: Entries, children: Mapping[str, list[str]], name: str, *, to_head: set[str], first: str = "", rest: str = ""
) -> Iterator[Line]:
    prefix = first
    while name:
        yield Line(entries[name], prefix)
        prefix = rest
        onward = _in_order(entries, children[name])
        main = next((one for one in onward if one in to_head), onward[-1] if onward else "")
        for side in onward:
            if side != main:
                yield from _branch(entries, children, side, to_head=to_head, first=f"{rest}├─ ", rest=f"{rest}│  ")
        name = main


def _in_order(entries: Entries, names: Iterator[str] | list[str]) -> list[str]:
    """The oldest first; the head was taken of nothing yet."""
    return sorted(names, key=lambda name: (name == HEAD, entries[name].created, name))


# --- amounts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """`snapshots` are those that are not marked. `reclaimable` is the most that a purge could free, in bytes."""

    snapshots: int
    removed: int
    used: int  # bytes, with the head
    head: int  # bytes
    reclaimable: int


def totals(entries: Entries) -> Totals:
    snapshots = [one for name, one in entries.items() if name != HEAD]
    removed = sum(one.removed for one in snapshots)
    return Totals(
        snapshots=len(snapshots) - removed,
        removed=removed,
        used=sum(to_bytes(one.size) for one in entries.values()),
        head=to_bytes(entries[HEAD].size) if HEAD in entries else 0,
        reclaimable=reclaimable(entries),
    )


@dataclass(slots=True)
class _Layer:
    size: int
    parent: str
    goes: bool
    children: set[str] = field(default_factory=set)


def reclaimable(entries: Entries) -> int:
    """The most that a purge could free, as engines purge: what is marked and what the system took goes. What nothing builds
    on is deleted; what one other builds on is merged into that, and frees what both hold; what several build on stays. Under
    the head only what the head holds too is freed. How much two hold both, nobody tells: at most the smaller of them."""
    sound = {line.entry.name: line.entry for line in lines(entries) if not line.loose}
    layers = {
        name: _Layer(to_bytes(one.size), one.parent, name != HEAD and (one.removed or not one.usercreated))
        for name, one in sound.items()
    }
    for name, children in children_of(sound).items():
        layers[name].children = set(children)
    freed = 0
    while name := next((name for name, one in layers.items() if _can_go(one)), ""):
        gone = layers.pop(name)
        for child in gone.children:
            both = min(gone.size, layers[child].size)
            layers[child].size += gone.size - both
            layers[child].parent = gone.parent
            freed += both
        freed += 0 if gone.children else gone.size
        if gone.parent in layers:
            layers[gone.parent].children = (layers[gone.parent].children - {name}) | gone.children
    base = layers.get(layers[HEAD].parent) if HEAD in layers else None
    return freed + (min(base.size, layers[HEAD].size) if base is not None and base.goes and base.children == {HEAD} else 0)


def _can_go(layer: _Layer) -> bool:
    return layer.goes and len(layer.children) < 2 and layer.children != {HEAD}
