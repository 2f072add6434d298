"""When a volume is measured again, and whether what was found is worth a write. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from ullage.kube.builtin.core import PersistentVolume
from ullage.kube.objects import is_deleting
from ullage.snapshots.model import Snapshot
from ullage.snapshots.used import Used

SELDOM: Final = 12  # times the interval, for volumes that nobody takes snapshots of
LONGEST: Final = 86_400.0  # seconds between two looks that take too long, unless the interval is longer
MOST_DOUBLINGS: Final = 32  # by then that is reached
PART: Final = 100  # a change by less than a hundredth is no news
LEAST: Final = 64 * 1024  # bytes: nor is one by less than this
OLD: Final = timedelta(hours=1)  # after a snapshot, what is older than this is written anew
_NEWEST: Final = 16  # snapshots of a claim that are looked at for the last cut


def is_measured(volume: PersistentVolume) -> bool:
    """A volume that no claim has gets no snapshot, so nobody asks what is in it."""
    ref = volume.spec.claim_ref
    return ref is not None and bool(ref.uid) and not is_deleting(volume.metadata)


def last_cut(snapshots: Iterable[Snapshot]) -> datetime | None:
    """Of a claim's snapshots, the newest of which come first."""
    cuts = [one.state.cut for _, one in zip(range(_NEWEST), snapshots, strict=False) if one.state.cut is not None]
    return max(cuts, default=None)


def wait(interval: float, *, has_snapshots: bool) -> float:
    """Seconds from one measurement to the next."""
    return interval if has_snapshots else SELDOM * interval


def wait_after(interval: float, *, failures: int) -> float:
    """Seconds after so many looks in a row that took too long: each was as much work as is ever done, for nothing."""
    return min(interval * SELDOM * 2.0 ** min(failures - 1, MOST_DOUBLINGS), max(LONGEST, interval * SELDOM))


def spread(uid: str, seconds: float) -> float:
    """A part of the time that is always the same for a volume: they shall not come all at once after a start."""
    return seconds * (zlib.crc32(uid.encode()) / 2**32)


def is_news(known: Used | None, found: int, *, by: str, now: datetime, cut: datetime | None) -> bool:
    """Whether it is to be written. An idle volume costs no write, however old its figure becomes: it was found to be right
    again and again. One that snapshots are taken of shows a figure that is not older than an hour and the last snapshot."""
    if known is None or known.by != by:
        return True
    if abs(found - known.bytes) > max(known.bytes // PART, LEAST):
        return True
    return cut is not None and known.at < cut and now - known.at > OLD
