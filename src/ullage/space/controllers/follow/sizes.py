"""How many bytes a snapshot of a storage system without engines takes, by what stands on its record. Pure."""

from __future__ import annotations

from typing import Final

from ullage.ledger.charging.methods import ALLOCATED_BLOCKS, MEASURED, RESTORE_SIZE
from ullage.snapshots.model import SIZE, Record
from ullage.snapshots.settings import HOSTPATH
from ullage.space.estimates import Estimate

_LONGEST: Final = 20  # digits


def size_of(record: Record) -> Estimate | None:
    """What was measured after the cut; else as large as a volume made from it has to be. None: nothing tells."""
    text = record.meta.annotations.get(SIZE, "")
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST:
        return Estimate(int(text), MEASURED if record.driver == HOSTPATH else ALLOCATED_BLOCKS)
    size = record.state.restore_size
    return None if size is None else Estimate(size, RESTORE_SIZE)
