"""What is left of a snapshot of an engine, and what it is charged with, by what its Engine was last seen to say. Pure.

A volume that is detached keeps what was seen last. What is not known changes nothing: what was booked stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ullage.engines.api import Engine, Snapshot, to_bytes
from ullage.engines.chain import HEAD, Entry
from ullage.engines.merging import Merges, merges_of
from ullage.engines.model import active_engine, entries_of, has_failed, is_purging
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.methods import ENGINE_SIZE
from ullage.names import is_subdomain
from ullage.space.controllers.follow.model import Cut


@dataclass(frozen=True, slots=True)
class View:
    """The snapshots of a volume, as the engine that serves it was last seen to have them."""

    entries: Mapping[str, Entry]
    merges: Merges


def view_of(engines: Iterable[Engine]) -> View | None:
    """None: nothing is known, since no engine was ever asked. While a volume migrates it has two: the active one counts."""
    engine = active_engine(engines)
    if engine is None or not engine.status.snapshots:
        return None
    entries = entries_of(engine)
    size = to_bytes(engine.spec.volume_size)
    return View(entries, merges_of(entries, volume_size=size, purging=is_purging(engine)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the objects say of one snapshot of a volume."""

    name: str
    cut: Cut  # with everybody who stands for it
    snapshot: Snapshot | None = None
    was_cut: bool = False  # somebody's status says that it was taken


def measured(traces: Iterable[Trace], view: View | None, *, has_volume: bool) -> list[Cut]:
    """The cuts of a volume, with what each is charged with. `has_volume`: the volume is there, and is to stay."""
    listed = list(traces)
    found = [_measured(one, view, has_volume=has_volume) for one in listed]
    if view is None or not _unshown(view, {one.name for one in listed}):
        return found
    return [replace(cut, gone=False, size=None) if cut.gone else cut for cut in found]


def _unshown(view: View, shown: set[str]) -> bool:
    """Whether there is a snapshot that no object stands for yet, as one that the system took a moment ago. What was merged may
    be in it: until it has somebody who pays, whoever has paid goes on."""
    return any(
        name not in shown and not one.removed and is_subdomain(name) for name, one in view.entries.items() if name != HEAD
    )


def _measured(trace: Trace, view: View | None, *, has_volume: bool) -> Cut:
    snapshot, cut = trace.snapshot, trace.cut
    going = snapshot is not None and is_deleting(snapshot.metadata)
    if not has_volume:
        return replace(cut, gone=going or snapshot is None)  # its data go, or are gone: nothing is merged any more
    entry = view.entries.get(trace.name) if view is not None else None
    if view is not None and entry is not None:
        return replace(cut, gone=True) if entry.removed else _sized(cut, view.merges.sizes[trace.name])
    if snapshot is not None and (has_failed(snapshot.status) or (going and _never_asked_for(snapshot))):
        return replace(cut, gone=True)
    if view is not None:
        return replace(cut, gone=going or (snapshot is None and trace.was_cut))
    return cut


def _sized(cut: Cut, size: int) -> Cut:
    return replace(cut, size=size, by=ENGINE_SIZE)


def _never_asked_for(snapshot: Snapshot) -> bool:
    status = snapshot.status
    return snapshot.spec.create_snapshot and not status.requested_time and not status.creation_time
