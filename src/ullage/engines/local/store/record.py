"""What a volume is, beside its data: one small JSON file, replaced as a whole.

Every change of the chain is one new record that takes the old one's place in one rename. So there is one moment at which a
change happens, and no crash can leave half of it. What the files hold is read from the files themselves.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ullage.engines.local.store.errors import Damaged
from ullage.engines.local.store.names import is_snapshot

FORMAT: Final = 1
BLOCK: Final = 4096  # bytes: what a layer holds, or does not, as a whole
MOST_LAYERS: Final = 250  # of a volume, its head among them
MAX_RECORD: Final = 1 << 26  # bytes; a record of 250 snapshots takes a thousandth of this


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot, by its name in `Record.snapshots`."""

    parent: str = ""  # the snapshot below it, if any
    removed: bool = False  # nobody wants it any more; a purge takes it away once it can
    userCreated: bool = False
    created: str = ""  # RFC 3339, as it was given
    labels: dict[str, str] = {}


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A volume. Size in bytes; a largest size of 0 is no limit."""

    format: int = FORMAT
    size: int
    head: int = 0  # the number in the head's file name
    parent: str = ""  # the snapshot below the head, if any
    created: str = ""  # when the head was
    maxCount: int = MOST_LAYERS
    maxSize: int = 0
    snapshots: dict[str, SnapshotRecord] = {}


def encode(record: Record) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def decode(text: bytes, *, where: str) -> Record:
    """Raises Damaged for what we cannot have written."""
    try:
        record = msgspec.json.decode(text, type=Record)
    except msgspec.DecodeError as error:
        raise Damaged(f"{where}: {error}") from error
    problem = _problem(record)
    if problem:
        raise Damaged(f"{where}: {problem}")
    return record


def _problem(record: Record) -> str | None:
    if record.format != FORMAT:
        return f"format {record.format} is not known here; {FORMAT} is allowed"
    if record.size <= 0 or record.size % BLOCK:
        return f"size {record.size} bytes: a positive multiple of {BLOCK} bytes is allowed"
    if len(record.snapshots) >= MOST_LAYERS:
        return f"{len(record.snapshots)} snapshots: fewer than {MOST_LAYERS} are allowed"
    for name, snapshot in record.snapshots.items():
        if not is_snapshot(name):
            return f"snapshot {name!r}: no name of a snapshot"
        if snapshot.parent and snapshot.parent not in record.snapshots:
            return f"snapshot {name}: its parent {snapshot.parent!r} is not there"
    if record.parent and record.parent not in record.snapshots:
        return f"the head's parent {record.parent!r} is not there"
    return _circle(record)


def _circle(record: Record) -> str | None:
    sound: set[str] = set()  # these end at a snapshot without a parent
    for name in record.snapshots:
        walk: dict[str, None] = {}
        while name and name not in sound:
            if name in walk:
                return f"snapshot {name} is its own ancestor"
            walk[name] = None
            name = record.snapshots[name].parent
        sound.update(walk)
    return None
