"""Clone: a snapshot of one volume becomes the base of another that is empty.

The copy is one layer, whatever chain it was read through, named after the new volume and as one of the system's own: so the
next purge may let the head take it over. The new volume has it wholly or not at all.
"""

from __future__ import annotations

from msgspec.structs import replace

from ullage.engines.chain import HEAD, clone_base
from ullage.engines.local.store import tree
from ullage.engines.local.store.errors import NotFound, Refused, translated
from ullage.engines.local.store.purge import PIECE, Cancelled, Progress
from ullage.engines.local.store.record import BLOCK, Record, SnapshotRecord
from ullage.engines.local.store.spans import Span, pieces, total
from ullage.engines.local.store.state import LiveState, LockedState


def readable(live: LiveState, snapshot: str, *, volume: str) -> None:
    """A marked snapshot may have lost blocks to a purge already: what would be read is nobody's data."""
    if snapshot not in live.record.snapshots:
        raise NotFound(f"cannot find snapshot {snapshot} in volume {volume}")
    if live.record.snapshots[snapshot].removed:
        raise Refused(f"cannot read removed snapshot {snapshot} of volume {volume}")


def clone(
    source: LockedState, snapshot: str, *, target: LockedState, created: str, progress: Progress, cancelled: Cancelled
) -> bool:
    """Gives False where it was cancelled, and the target is empty as before."""
    base = clone_base(target.name)
    with source.locked() as live:
        readable(live, snapshot, volume=source.name)
        size = live.record.size
        wanted = list(source.index_of(live, snapshot).held())
    with target.locked() as live:
        _check_empty(live, target.name, size=size)
        path = target.directory.path(live.record, base)
        if path in target.making:
            raise Refused(f"volume {target.name} is being cloned into")
        target.making.add(path)
    try:
        with target.locked() as live:
            target.directory.add_layer(live.record, base)
        whole = _copy(source, snapshot, wanted, target=target, path=path, progress=progress, cancelled=cancelled)
        if whole:
            _adopt(target, base, path, created=created, size=size)
    finally:
        target.making.discard(path)
        with target.locked() as live:
            target.directory.sweep(live.record)
    return whole


def _copy(
    source: LockedState,
    snapshot: str,
    wanted: list[Span],
    *,
    target: LockedState,
    path: str,
    progress: Progress,
    cancelled: Cancelled,
) -> bool:
    blocks, copied, percent = total(wanted), 0, 0
    for piece in pieces(wanted, limit=PIECE):
        if cancelled():
            return False
        offset, length = piece.start * BLOCK, (piece.end - piece.start) * BLOCK
        with source.locked() as live:
            readable(live, snapshot, volume=source.name)
            data = source.read(live, source.index_of(live, snapshot), offset=offset, length=length)
        with target.locked():
            target.directory.write(path, offset=offset, data=data)
        copied += piece.end - piece.start
        if 100 * copied // blocks > percent:
            percent = 100 * copied // blocks
            progress(percent)
    return True


def _adopt(target: LockedState, base: str, path: str, *, created: str, size: int) -> None:
    directory = target.directory
    with translated(f"volume {target.name}"):
        directory.sync(path)
    with target.locked() as live:
        _check_empty(live, target.name, size=size)
        old = directory.path(live.record, HEAD)
        record = tree.reverted(_based(live.record, base, created=created), base, created=created)
        directory.add_layer(record, HEAD)
        directory.commit(record)
        directory.remove(old)
        live.record = record
        target.measure(live)
        live.blocks = {HEAD: 0, base: total(directory.held(path))}


def _based(record: Record, base: str, *, created: str) -> Record:
    return replace(record, snapshots={base: SnapshotRecord(created=created)})


def _check_empty(live: LiveState, name: str, *, size: int) -> None:
    if live.record.snapshots or live.blocks[HEAD]:
        raise Refused(f"cannot clone into volume {name}: it holds data or snapshots; an empty one is allowed")
    if live.record.size < size:
        raise Refused(f"cannot clone into volume {name}: its size is {live.record.size} bytes, at least {size} are needed")
