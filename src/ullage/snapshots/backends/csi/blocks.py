"""Which blocks of a snapshot have data, as the service SnapshotMetadata tells it: ranges in order, message by message. Pure.

It tells of snapshots, never of volumes, so it says how large a snapshot is and nothing of the next one. Every block that has
data counts, also one that the storage system shares with other snapshots: it stays when those go.
"""

from __future__ import annotations

from typing import Final

from . import csi_pb2 as csi

MOST: Final = 10_000  # ranges that are asked for in a message: as many as are added up before others get their turn


class BadRanges(Exception):
    """Not what the interface allows: nothing can be concluded from it."""


class AllocatedBlocks:
    """Adds them up. `end` is how far it has come: a call that broke off is gone on with from there."""

    def __init__(self) -> None:
        self.total = 0  # bytes
        self.end = 0
        self._capacity = 0
        self._first = True

    def resume(self) -> None:
        """Another call begins at `end`. Its first range may have begun before."""
        self._first = True

    def add(self, message: csi.GetMetadataAllocatedResponse) -> None:
        if len(message.block_metadata) > MOST:
            raise BadRanges(f"{len(message.block_metadata)} ranges in a message; {MOST} at most were asked for")
        capacity = message.volume_capacity_bytes
        if capacity <= 0 or capacity != (self._capacity or capacity):
            raise BadRanges(f"the volume has {capacity} bytes" + (f" by now, not {self._capacity}" if self._capacity else ""))
        self._capacity = capacity
        for one in message.block_metadata:
            self._add(one.byte_offset, one.size_bytes)

    def _add(self, start: int, size: int) -> None:
        end = start + size
        if start < 0 or size <= 0 or end > self._capacity:
            raise BadRanges(f"{size} bytes at {start}, of a volume of {self._capacity} bytes")
        if end <= self.end or (start < self.end and not self._first):
            raise BadRanges(f"{size} bytes at {start}, after a range that ends at {self.end}")
        self.total += end - max(start, self.end)
        self.end, self._first = end, False
