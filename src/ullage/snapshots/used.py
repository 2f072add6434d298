"""What a volume was last measured to hold, as it stands on its PersistentVolume. Pure.

Webhooks answer from the API alone, so what a storage system knows has to be there before anybody asks. It is written on the
PersistentVolume since that belongs to the cluster: a tenant can write to his claims and snapshots, and never to this.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from ullage.engines.handles import DRIVER
from ullage.kube.kinds import Meta
from ullage.ledger.charging.methods import CAPACITY, ENGINE_HEAD, MEASURED, METHODS
from ullage.times import read_time, timestamp

USED: Final = "ullage.io/used"
# On a StorageClass: its snapshots are estimated by the last one of their volume, and may pass a limit.
ESTIMATE_BY: Final = "ullage.io/estimate-by"

_LARGEST: Final = 2**63 - 1  # as large as an amount in the API can be
_LONGEST: Final = 256  # characters: what is longer was not written here


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """So many bytes would a snapshot have taken at that moment, at most."""

    bytes: int
    at: datetime
    by: str


class _Written(msgspec.Struct, frozen=True):
    bytes: int
    at: str
    by: str


def read_used(volume: Meta) -> Used | None:
    """From the metadata of a PersistentVolume, and of nothing else. None: nothing readable is there."""
    text = volume.annotations.get(USED, "")
    if not text or len(text) > _LONGEST:
        return None
    try:
        found = msgspec.json.decode(text, type=_Written)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    at = read_time(found.at)
    if at is None or not 0 <= found.bytes <= _LARGEST or found.by not in METHODS:
        return None
    return Used(bytes=found.bytes, at=at, by=found.by)


def written(used: Used) -> str:
    """The annotation's value."""
    return msgspec.json.encode(_Written(used.bytes, timestamp(used.at), used.by)).decode()


def estimated_by(driver: str, estimate: int | None) -> str:
    """How a driver's backend came by its estimate. None: it had none, and the capacity has to do."""
    if estimate is None:
        return CAPACITY
    return ENGINE_HEAD if driver == DRIVER else MEASURED
