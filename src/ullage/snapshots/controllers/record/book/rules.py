"""What is to be done about the stamp of a snapshot that a sidecar takes. Pure."""

from __future__ import annotations

from enum import Enum, auto

from ullage.kube.objects import is_deleting
from ullage.ledger.charging.booking import payer
from ullage.snapshots.binding import refers_to
from ullage.snapshots.gate import gate_of
from ullage.snapshots.model import ASKED_AGAIN, Record, Snapshot


class Booking(Enum):
    """What is done next about a stamp."""

    REST = auto()
    BOOK = auto()  # what the sidecar has measured; or say that it does not fit
    GIVE_BACK = auto()  # nothing was made, and only an edit can help: until then it takes nothing


def plan_booking(record: Record, snapshot: Snapshot | None) -> Booking:
    """A group is booked by whoever holds it. Once a snapshot is cut, its stamp follows what it really takes: not here."""
    if snapshot is None or not refers_to(record, snapshot) or is_deleting(snapshot.meta) or is_deleting(record.meta):
        return Booking.REST
    stamp = payer(snapshot.meta) if not record.handle else None
    gate = gate_of(snapshot.meta, record.meta, books=False) if stamp is not None else None
    if stamp is None or gate is None or gate.group:
        return Booking.REST
    if gate.estimate is not None:
        return Booking.REST if gate.open or gate.refusal else Booking.BOOK
    problem = record.state.problem
    failed = problem is not None and problem.reason not in ASKED_AGAIN and not record.begun
    return Booking.GIVE_BACK if failed and stamp.takes else Booking.REST
