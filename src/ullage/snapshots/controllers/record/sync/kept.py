"""Says in Events that a driver's snapshot stays although a record of it was deleted: another record names it too. Pure.

Backup tools copy contents: a backup that is restored has a second content with the handle of the first. Data that another
record names is not deleted, whichever record goes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.kube.events.reason import Reason
from ullage.snapshots.lookup import NamedRecord

KEPT: Final = Reason("SnapshotKept", action="Delete")
RETAINED: Final = Reason("SnapshotKept", action="Delete", type="Warning")
MOST_TOLD: Final = 10  # records that get an Event each


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """An Event to be recorded on a record."""

    about: NamedRecord
    reason: Reason
    note: str


def kept_events(deleted: NamedRecord, others: Sequence[NamedRecord]) -> Iterator[KeptEvent]:
    """The Events for a record that was deleted while others keep its snapshot: one on it, one on each of them."""
    if not others:
        return
    snapshot = f"snapshot {deleted.record.handle} of {deleted.record.driver}"
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    yield KeptEvent(deleted, KEPT, f"The {snapshot} was not deleted: {others[0]}{more} has the same handle.")
    for other in others[:MOST_TOLD]:
        if other.record.policy == "Delete":
            reason, next_step = KEPT, "It is deleted with the last object that has its handle."
        else:
            reason = RETAINED
            next_step = "The deletion policy here is Retain: to have it deleted with this object, set the policy to Delete."
        yield KeptEvent(other, reason, f"{deleted} was deleted, and the {snapshot} stays for this object. {next_step}")
