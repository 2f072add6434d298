"""How many snapshots a volume may have, and of what size: checked before a snapshot is cut, with what it would become.

Sums and texts are longhorn-engine's, with its oddities: all snapshots are counted, but only those of the live chain are
measured; a mark takes a snapshot out of both sums at once, but out of the total only when a purge has taken it away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.engines.chain import HEAD
from ullage.engines.local.store import tree
from ullage.engines.local.store.errors import Refused
from ullage.engines.local.store.record import MOST_LAYERS, Record


@dataclass(frozen=True, slots=True)
class Usage:
    """What counts against the limits."""

    count: int  # snapshots that are not marked
    total: int  # layers, the head and marked ones too
    size: int  # bytes in snapshots of the live chain that are not marked
    head: int  # bytes in the head: the next snapshot's size


def usage(record: Record, sizes: Mapping[str, int]) -> Usage:
    """`sizes` has the bytes of each layer."""
    live = (name for name in tree.chain(record) if name != HEAD and not record.snapshots[name].removed)
    return Usage(
        count=sum(not snapshot.removed for snapshot in record.snapshots.values()),
        total=len(record.snapshots) + 1,
        size=sum(sizes[name] for name in live),
        head=sizes[HEAD],
    )


def check_snapshot(used: Usage, *, max_count: int, max_size: int) -> None:
    """Whether one more fits: the head's present size is what it would add."""
    if used.count >= max_count:
        raise Refused(f"snapshot count usage {used.count} is equal or larger than snapshotMaxCount {max_count}")
    if used.total >= MOST_LAYERS:
        raise Refused(f"snapshot count total is already too big: {used.total}")
    if max_size and used.head > max_size - used.size:
        raise Refused(f"snapshot free space {max_size - used.size} is not enough for head file {used.head}")


def check_max_count(used: Usage, count: int) -> None:
    if count < used.count:
        raise Refused(
            f"cannot set snapshotMaxCount={count} smaller than current snapshot count usage={used.count}, "
            "please purge snapshots first"
        )


def check_max_size(used: Usage, size: int) -> None:
    """0 is no limit, and yet smaller than what is used: the real engine refuses it too."""
    if size < used.size:
        raise Refused(
            f"cannot set snapshotMaxSize={size} smaller than current snapshot size usage={used.size}, "
            "please purge snapshots first"
        )
