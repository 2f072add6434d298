"""Which blocks of a snapshot have data. Those of a directory are its files, one after the other, as if on a device."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import grpc

from ullage.files.sparse import extents
from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi.csi_pb2_grpc import SnapshotMetadataServicer

from .asking import found, invalid, required
from .faults import Refusal
from .store import Snapshot, Store

METADATA = "SNAPSHOT_METADATA_SERVICE"
BLOCK = 4096
IN_ONE = 256  # ranges in a message, where nobody asks for fewer


class SnapshotMetadata(SnapshotMetadataServicer):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def GetMetadataAllocated(
        self, request: csi.GetMetadataAllocatedRequest, context: Any
    ) -> AsyncIterator[csi.GetMetadataAllocatedResponse]:
        required(snapshot_id=request.snapshot_id)
        if request.starting_offset < 0 or request.max_results < 0:
            raise invalid("starting_offset and max_results cannot be negative")
        snapshot = found(self._store.snapshots.get(request.snapshot_id), f"snapshot {request.snapshot_id}")
        if request.starting_offset >= snapshot.size > 0:
            raise Refusal(grpc.StatusCode.OUT_OF_RANGE, f"starting_offset is not below {snapshot.size}")
        ranges = (one for one in self._ranges(snapshot) if sum(one) > request.starting_offset)
        while part := list(islice(ranges, min(request.max_results or IN_ONE, IN_ONE))):
            yield csi.GetMetadataAllocatedResponse(
                block_metadata_type=csi.VARIABLE_LENGTH,
                volume_capacity_bytes=snapshot.size,
                block_metadata=[csi.BlockMetadata(byte_offset=start, size_bytes=size) for start, size in part],
            )

    def _ranges(self, snapshot: Snapshot) -> Iterator[tuple[int, int]]:
        """Where they begin, and how long they are."""
        data = self._store.snapshots.data(snapshot.id)
        if snapshot.block:
            yield from blocks_of(data)
            return
        at = 0
        for file in sorted(path for path in data.rglob("*") if path.is_file() and not path.is_symlink()):
            for _, size in blocks_of(file):
                yield at, size
                at += size


def blocks_of(path: Path) -> Iterator[tuple[int, int]]:
    with path.open("rb") as file:
        for start, end in extents(file.fileno()):
            first = start // BLOCK * BLOCK
            yield first, -(-end // BLOCK) * BLOCK - first
