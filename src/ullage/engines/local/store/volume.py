"""One volume: what the engine's services ask of a replica, without the wire.

Calls may come from any thread; see `state` for how they are kept apart, and the package for what is acknowledged when.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from ullage.engines.chain import HEAD, snapshot_file
from ullage.engines.local.store import clone, limits, tree, views
from ullage.engines.local.store.errors import NotFound, Refused
from ullage.engines.local.store.names import check_snapshot
from ullage.engines.local.store.purge import Cancelled, Progress, Purger, ignore, never
from ullage.engines.local.store.record import BLOCK, Record
from ullage.engines.local.store.spans import Span
from ullage.engines.local.store.state import LiveState, LockedState
from ullage.errors import BadInput


class StoredVolume:
    """A chain of layers under a head that is written to."""

    def __init__(self, state: LockedState) -> None:
        self._state = state
        self._directory = state.directory
        self._purge = threading.Lock()  # held while one runs

    @property
    def name(self) -> str:
        return self._state.name

    # --- data ---------------------------------------------------------------------------------------------------------

    def read_at(self, offset: int, length: int) -> bytes:
        """What was written last; zeros where nothing was."""
        with self._state.locked() as live:
            _check_range(live, offset, length)
            return self._state.read(live, live.index, offset=offset, length=length)

    def write_at(self, offset: int, data: bytes) -> None:
        """Zeros are data too: they take space, and hide what is below."""
        with self._state.locked() as live:
            _check_range(live, offset, len(data))
            if data:
                self._write(live, offset, data)

    def sync(self) -> None:
        """All that was written is on the disk afterwards. Snapshots are there already."""
        with self._state.locked() as live:
            self._directory.sync(self._directory.path(live.record, HEAD))

    def read_snapshot(self, name: str, *, offset: int, length: int) -> bytes:
        """What the volume was when the snapshot was taken. Refused for one that is marked as removed."""
        with self._state.locked() as live:
            clone.readable(live, name, volume=self.name)
            _check_range(live, offset, length)
            return self._state.read(live, self._state.index_of(live, name), offset=offset, length=length)

    # --- what it is ---------------------------------------------------------------------------------------------------

    def view(self) -> views.View:
        with self._state.locked() as live:
            return views.view(self.name, live.record, live.sizes(), merged=self._state.merged_sizes(live))

    def allocated(self, layer: str = HEAD) -> int:
        """Bytes of the disk that a snapshot, or the head, takes: the file system's own bookkeeping is in it."""
        with self._state.locked() as live:
            if layer not in live.blocks:
                raise NotFound(f"cannot find snapshot {layer} in volume {self.name}")
            return self._directory.allocated(self._directory.path(live.record, layer))

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self, name: str, *, created: str, user_created: bool = True, labels: Mapping[str, str] | None = None) -> None:
        """Costs the same for any size of volume. What was written before is in it, and on the disk. The limit of size is not
        for the system's own, as in longhorn-engine's replicas."""
        check_snapshot(name)
        with self._state.locked() as live:
            size = live.record.size
            self._check_room(live, max_size=live.record.maxSize if user_created else 0)
            self._cut(live, name, created=created, user_created=user_created, labels=labels or {}, size=size)

    def mark_removed(self, name: str) -> None:
        """It stays in the chain until a purge can take it away. A name that is not there is as good as removed."""
        with self._state.locked() as live:
            if name == HEAD:
                raise Refused("cannot mark the active differencing disk as removed")
            snapshot = live.record.snapshots.get(name)
            if snapshot is not None and not snapshot.removed:
                self._commit(live, tree.marked(live.record, name))

    def purge(self, *, progress: Progress = ignore, cancelled: Cancelled = never) -> bool:
        """Marks the system's snapshots, then takes marked ones away where the tree allows it. False where it was cancelled."""
        if not self._purge.acquire(blocking=False):
            raise Refused("replica is already purging snapshots")
        try:
            return Purger(self._state, progress, cancelled).run()
        finally:
            self._purge.release()

    @property
    def purging(self) -> bool:
        return self._purge.locked()

    def revert(self, name: str, *, created: str) -> None:
        """The volume is what it was at a snapshot; what was written since the last one is gone. Other branches stay."""
        with self._state.locked() as live:
            if name not in live.record.snapshots:
                raise NotFound(f"cannot do revert since the target snapshot {name} is not found")
            if live.record.snapshots[name].removed:
                raise Refused(f"cannot revert to removed snapshot {name}")
            record = tree.reverted(live.record, name, created=created)
            with self._new_head(live, record):
                self._directory.commit(record)
            self._state.measure(live)
            live.blocks[HEAD] = 0

    def expand(self, size: int, *, created: str) -> None:
        """Grows, in bytes. What is there becomes a snapshot of the system's, so limits apply. The same size changes nothing."""
        check_size(size)
        with self._state.locked() as live:
            if size < live.record.size:
                raise Refused(f"controller cannot be expanded to a smaller size {size}")
            if size > live.record.size:
                labels = {"replica-expansion": str(size)}
                self._check_room(live, max_size=live.record.maxSize)
                self._cut(live, f"expand-{size}", created=created, user_created=False, labels=labels, size=size)

    def clone_from(
        self, source: StoredVolume, snapshot: str, *, created: str, progress: Progress = ignore, cancelled: Cancelled = never
    ) -> bool:
        """Takes a snapshot of another volume as the base of this empty one. False where it was cancelled."""
        state = source._state
        return clone.clone(state, snapshot, target=self._state, created=created, progress=progress, cancelled=cancelled)

    # --- limits -------------------------------------------------------------------------------------------------------

    def set_max_count(self, count: int) -> None:
        """Snapshots that are not marked. The 250 layers that a chain may have hold on top of it."""
        with self._state.locked() as live:
            limits.check_max_count(self._usage(live), count)
            self._commit(live, replace(live.record, maxCount=count))

    def set_max_size(self, size: int) -> None:
        """Bytes in snapshots of the live chain that are not marked; 0 is no limit."""
        with self._state.locked() as live:
            limits.check_max_size(self._usage(live), size)
            self._commit(live, replace(live.record, maxSize=size))

    # --- within -------------------------------------------------------------------------------------------------------

    def _write(self, live: LiveState, offset: int, data: bytes) -> None:
        """Whole blocks: the rest of the first and of the last one is filled up from below."""
        span = Span(offset // BLOCK, -(-(offset + len(data)) // BLOCK))
        start, end = span.start * BLOCK, offset + len(data)
        before = self._state.read(live, live.index, offset=start, length=offset - start)
        after = self._state.read(live, live.index, offset=end, length=span.end * BLOCK - end)
        whole = b"".join((before, data, after)) if before or after else data
        self._directory.write(self._directory.path(live.record, HEAD), offset=start, data=whole)
        live.blocks[HEAD] += live.index.mark(HEAD, span)

    def _cut(
        self, live: LiveState, name: str, *, created: str, user_created: bool, labels: Mapping[str, str], size: int
    ) -> None:
        if name in live.record.snapshots:
            raise Refused(f"snapshot {snapshot_file(name)} is already existing")
        record = tree.cut(live.record, name, created=created, user_created=user_created, labels=labels, size=size)
        self._directory.sync(self._directory.path(live.record, HEAD))
        with self._new_head(live, record) as old:
            self._directory.name_head(old, name)
            self._directory.commit(record)
        live.index.rename(HEAD, name)
        live.index.put(HEAD)
        live.blocks |= {name: live.blocks[HEAD], HEAD: 0}

    def _check_room(self, live: LiveState, *, max_size: int) -> None:
        limits.check_snapshot(self._usage(live), max_count=live.record.maxCount, max_size=max_size)

    @contextmanager
    def _new_head(self, live: LiveState, record: Record) -> Iterator[Record]:
        """Around the commit of a record with another head. Gives the record before."""
        old = live.record
        self._directory.add_layer(record, HEAD)
        yield old
        self._directory.remove(self._directory.path(old, HEAD))
        live.record = record

    def _commit(self, live: LiveState, record: Record) -> None:
        self._directory.commit(record)
        live.record = record

    def _usage(self, live: LiveState) -> limits.Usage:
        return limits.usage(live.record, live.sizes())


def check_size(size: int) -> int:
    if size <= 0 or size % BLOCK:
        raise BadInput("size", f"{size} bytes", f"a positive multiple of {BLOCK} bytes is allowed")
    return size


def _check_range(live: LiveState, offset: int, length: int) -> None:
    if offset < 0 or length < 0 or offset + length > live.record.size:
        raise BadInput("range", f"{length} bytes at {offset}", f"the volume has {live.record.size} bytes")
