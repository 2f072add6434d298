"""An object that pays goes only when it pays nothing any more: what it was charged with has been booked elsewhere by then, or
is gone. Pure.

Whoever takes off its finalizer waits for that, and for no longer than a while: an object must be able to go although nobody is
there who follows what is charged, as when Ullage is being taken away. Whatever remains is then booked later.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ullage.kube.kinds import Meta
from ullage.ledger.amounts import BadAmount
from ullage.ledger.charging.stamps import BadStamp, read_stamp
from ullage.times import read_time

LONGEST_SECONDS: Final = 60.0


def pays(meta: Meta) -> bool:
    """Whether an object takes anything. One without a stamp does not, nor one whose stamp cannot be read."""
    try:
        return bool(read_stamp(meta))
    except (BadStamp, BadAmount):
        return False


def seconds_held(meta: Meta, now: datetime) -> float:
    """For how long an object that goes has to stay at most, as things are; 0: it may go."""
    since = read_time(meta.deletion_timestamp or "")
    if since is None or not pays(meta):
        return 0.0
    return max(0.0, LONGEST_SECONDS - (now - since).total_seconds())
