"""Clone: a snapshot of one volume becomes the base of another that is empty.

The copy is one layer, whatever chain it was read through, under the snapshot's name and as one of the system's own: so the
next purge may let the head take it over. The new volume has it wholly or not at all.
"""

from __future__ import annotations

from msgspec.structs import replace

from ullage.engines.local import tree
from ullage.engines.local.desk import Desk, Live
from ullage.engines.local.names import HEAD
from ullage.engines.local.problems import NotFound, Refused, translated
from ullage.engines.local.purging import PIECE, Cancelled, Progress
from ullage.engines.local.record import BLOCK, Record, SnapshotRecord
from ullage.engines.local.spans import Span, pieces, total


def readable(live: Live, snapshot: str, *, volume: str) -> None:
    """A marked snapshot may have lost blocks to a purge already: what would be read is nobody's data."""
    if snapshot not in live.record.snapshots:
        raise NotFound(f"cannot find snapshot {snapshot} in volume {volume}")
    if live.record.snapshots[snapshot].removed:
        raise Refused(f"cannot read removed snapshot {snapshot} of volume {volume}")


def clone(source: Desk, snapshot: str, *, target: Desk, created: str, progress: Progress, cancelled: Cancelled) -> bool:
    """Gives False where it was cancelled, and the target is empty as before."""
    with source.at_work() as live:
        readable(live, snapshot, volume=source.name)
        size = live.record.size
        wanted = list(source.index_of(live, snapshot).held())
    with target.at_work() as live:
        _check_empty(live, target.name, size=size)
        path = target.home.path(live.record, snapshot)
        if path in target.making:
            raise Refused(f"volume {target.name} is being cloned into")
        target.making.add(path)
    try:
        with target.at_work() as live:
            target.home.add_layer(live.record, snapshot)
        whole = _copy(source, snapshot, wanted, target=target, path=path, progress=progress, cancelled=cancelled)
        if whole:
            _adopt(target, snapshot, path, created=created, size=size)
    finally:
        target.making.discard(path)
        with target.at_work() as live:
            target.home.sweep(live.record)
    return whole


def _copy(
    source: Desk, snapshot: str, wanted: list[Span], *, target: Desk, path: str, progress: Progress, cancelled: Cancelled
) -> bool:
    blocks, copied, percent = total(wanted), 0, 0
    for piece in pieces(wanted, limit=PIECE):
        if cancelled():
            return False
        offset, length = piece.start * BLOCK, (piece.end - piece.start) * BLOCK
        with source.at_work() as live:
            readable(live, snapshot, volume=source.name)
            data = source.read(live, source.index_of(live, snapshot), offset=offset, length=length)
        with target.at_work():
            target.home.write(path, offset=offset, data=data)
        copied += piece.end - piece.start
        if 100 * copied // blocks > percent:
            percent = 100 * copied // blocks
            progress(percent)
    return True


def _adopt(target: Desk, snapshot: str, path: str, *, created: str, size: int) -> None:
    home = target.home
    with translated(f"volume {target.name}"):
        home.sync(path)
    with target.at_work() as live:
        _check_empty(live, target.name, size=size)
        old = home.path(live.record, HEAD)
        record = tree.reverted(_based(live.record, snapshot, created=created), snapshot, created=created)
        home.add_layer(record, HEAD)
        home.commit(record)
        home.remove(old)
        live.record = record
        target.measure(live)
        live.blocks = {HEAD: 0, snapshot: total(home.held(path))}


def _based(record: Record, snapshot: str, *, created: str) -> Record:
    return replace(record, snapshots={snapshot: SnapshotRecord(created=created)})


def _check_empty(live: Live, name: str, *, size: int) -> None:
    if live.record.snapshots or live.blocks[HEAD]:
        raise Refused(f"cannot clone into volume {name}: it holds data or snapshots; an empty one is allowed")
    if live.record.size < size:
        raise Refused(f"cannot clone into volume {name}: its size is {live.record.size} bytes, at least {size} are needed")
