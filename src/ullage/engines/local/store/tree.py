"""Snapshots as a tree, and every change of it as a new record: pure functions, so that a change is there before it is made.

The head is a leaf of the tree, under the name `volume-head`. Its ancestors are the live chain. A revert leaves the old branch
where it was, so a snapshot may have several children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from ullage.engines.chain import HEAD
from ullage.engines.local.store.record import Record, SnapshotRecord


def children(record: Record) -> dict[str, frozenset[str]]:
    """Of every layer, by name. A snapshot without any has an empty set."""
    found: dict[str, set[str]] = {name: set() for name in (*record.snapshots, HEAD)}
    for name, snapshot in record.snapshots.items():
        if snapshot.parent:
            found[snapshot.parent].add(name)
    if record.parent:
        found[record.parent].add(HEAD)
    return {name: frozenset(below) for name, below in found.items()}


def chain(record: Record, top: str = HEAD) -> list[str]:
    """A layer and what it is read through, down to the one without a parent."""
    layers = [top]
    below = record.parent if top == HEAD else record.snapshots[top].parent
    while below:
        layers.append(below)
        below = record.snapshots[below].parent
    return layers


def cut(record: Record, name: str, *, created: str, user_created: bool, labels: Mapping[str, str], size: int) -> Record:
    """The head becomes a snapshot, and a new head of this size, in bytes, is put on it."""
    snapshot = SnapshotRecord(parent=record.parent, userCreated=user_created, created=created, labels=dict(labels))
    snapshots = {**record.snapshots, name: snapshot}
    return replace(record, size=size, head=record.head + 1, parent=name, created=created, snapshots=snapshots)


def marked(record: Record, *names: str) -> Record:
    gone = {name: replace(record.snapshots[name], removed=True) for name in names}
    return replace(record, snapshots=record.snapshots | gone)


def reverted(record: Record, name: str, *, created: str) -> Record:
    """A new head on a snapshot; the old one is dropped."""
    return replace(record, head=record.head + 1, parent=name, created=created)


def dropped(record: Record, name: str) -> Record:
    """Without a snapshot; its only child, if it has one, takes its place."""
    parent = record.snapshots[name].parent
    snapshots = {
        other: replace(snapshot, parent=parent) if snapshot.parent == name else snapshot
        for other, snapshot in record.snapshots.items()
        if other != name
    }
    return replace(record, snapshots=snapshots)


@dataclass(frozen=True, slots=True)
class Delete:
    """Nothing stands on it: its data goes."""

    name: str


@dataclass(frozen=True, slots=True)
class Merge:
    """One snapshot stands on it, and takes over what it lacks itself."""

    name: str
    child: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Only the head stands on it: it stays, without what the head has written over."""

    name: str


Step = Delete | Merge | Prune


def unwanted(record: Record) -> list[str]:
    """What a purge marks before it begins: the system's own snapshots."""
    return [name for name, snapshot in record.snapshots.items() if not (snapshot.userCreated or snapshot.removed)]


def next_step(record: Record) -> Delete | Merge | None:
    """What a purge does next to a snapshot that goes. One with two children or more has to wait, and the head's parent too.

    Newest first: what goes is handed on once, however many of its descendants go too.
    """
    below = children(record)
    for name, snapshot in reversed(record.snapshots.items()):
        if not snapshot.removed:
            continue
        if not below[name]:
            return Delete(name)
        if len(below[name]) == 1 and HEAD not in below[name]:
            return Merge(name, *below[name])
    return None


def last_step(record: Record) -> Prune | None:
    """What a purge does at its end."""
    parent = record.snapshots.get(record.parent)
    if parent is not None and parent.removed and children(record)[record.parent] == {HEAD}:
        return Prune(record.parent)
    return None
