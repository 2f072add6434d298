"""What each snapshot of an engine is to be counted with: its own bytes, and those that a purge moves into it. Pure.

A purge merges a removed snapshot into the one that was taken after it, block by block, and the sizes of both are seen a moment
later. So the bytes of a removed snapshot are its heir's from the moment on at which it is marked: what is counted is never less
than what is there, and equals it when nothing is left to merge. What the head is written on top of has no heir as yet: the next
snapshot will be.

An engine of ours tells how many bytes will be in the heir, with each block counted once (`Entry.merged`). Others tell sizes
only: there the sum of all counts, and as much as the volume has at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.engines.chain import HEAD, Entry


@dataclass(frozen=True, slots=True)
class Merges:
    """The snapshots of a volume, and where the bytes go of those that are removed."""

    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes by name, of those that are not removed, and of the head
    heirs: Mapping[str, str] = field(default_factory=dict)  # from one that goes to the one that gets its bytes, or the head


def merges_of(entries: Mapping[str, Entry], *, volume_size: int = 0, purging: bool = False) -> Merges:
    """`volume_size` in bytes; 0: not known. `purging`: a purge is at work, which also takes the system's own snapshots along,
    marked or not."""
    sizes: dict[str, int] = {}
    heirs: dict[str, str] = {}
    for name in _kept(entries):
        own, whole = entries[name].size, entries[name].merged
        sizes[name] = own
        below = entries[name].parent
        while below in entries and below not in heirs and _goes(entries[below], purging=purging):
            heirs[below] = name
            sizes[name] += entries[below].size
            whole = whole if entries[below].removed else None  # a purge will mark it, and then the engine tells
            below = entries[below].parent
        if whole is not None:
            sizes[name] = max(own, whole)
        elif volume_size:
            sizes[name] = max(own, min(sizes[name], volume_size))
    return Merges(sizes, heirs)


def _kept(entries: Mapping[str, Entry]) -> list[str]:
    """Who may inherit, in order. A removed one that several are built on stays until all but one of these are gone, and nobody
    knows which: the oldest is its heir, so that those who come later change nothing; the head is the last."""
    kept = sorted((one.created, name) for name, one in entries.items() if name != HEAD and not one.removed)
    return [*(name for _, name in kept), *(name for name in entries if name == HEAD)]


def _goes(entry: Entry, *, purging: bool) -> bool:
    return entry.removed or (purging and not entry.user_created)
