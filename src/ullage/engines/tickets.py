"""Attachment tickets: while one is valid the volume stays attached, so that its engine can be asked.

A ticket is in the Volume itself, `spec.attachmentTickets`, under an id that follows from its owner: making it twice makes
one. It expires, so that a forgotten one holds nothing; and the volumes' controller removes those whose owner is gone or does
not need it any more. Pure functions: what they return is written as a merge patch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from ullage.engines.api import AttachmentTicket, Snapshot, TicketOwner, Volume
from ullage.kube.objects import Json
from ullage.times import timestamp

Wanted = Callable[[TicketOwner], bool]  # whether an owner is there, and needs the volume attached

KIND: Final = "Snapshot"


def ticket_id(snapshot: Snapshot) -> str:
    return f"snapshot-{snapshot.metadata.uid}"


def ticket_of(volume: Volume, snapshot: Snapshot) -> AttachmentTicket | None:
    return (volume.spec.attachment_tickets or {}).get(ticket_id(snapshot))


def is_valid(ticket: AttachmentTicket, now: datetime) -> bool:
    """Whether it counts. One whose end cannot be read has none."""
    try:
        return now < datetime.fromisoformat(ticket.until)
    except (ValueError, TypeError):  # no date, or one without a time zone
        return False


def demand(volume: Volume, snapshot: Snapshot, *, now: datetime, seconds: float) -> Json | None:
    """What to write so that the volume is attached for the snapshot; None where a ticket is good for half the time yet."""
    held = ticket_of(volume, snapshot)
    if held is not None and is_valid(held, now + timedelta(seconds=seconds / 2)):
        return None
    owner = TicketOwner(kind=KIND, name=snapshot.metadata.name, uid=snapshot.metadata.uid)
    ticket = AttachmentTicket(owner=owner, since=timestamp(now), until=timestamp(now + timedelta(seconds=seconds)))
    return _patch({ticket_id(snapshot): msgspec.to_builtins(ticket)})


def release(volume: Volume, snapshot: Snapshot) -> Json | None:
    """What to write so that the volume is not held for the snapshot; None where it is not."""
    return None if ticket_of(volume, snapshot) is None else _patch({ticket_id(snapshot): None})


def reap(volume: Volume, wanted: Wanted, *, now: datetime) -> Json | None:
    """What to write so that only tickets are left that somebody needs. Those of other kinds of owners only run out."""
    tickets = volume.spec.attachment_tickets or {}
    idle = [
        one for one, held in tickets.items() if not is_valid(held, now) or not (held.owner.kind != KIND or wanted(held.owner))
    ]
    return _patch(dict.fromkeys(idle)) if idle else None


def next_end(volume: Volume, now: datetime) -> float | None:
    """Seconds until the first of the tickets that count runs out."""
    tickets: Mapping[str, AttachmentTicket] = volume.spec.attachment_tickets or {}
    ends = [datetime.fromisoformat(one.until) for one in tickets.values() if is_valid(one, now)]
    return (min(ends) - now).total_seconds() if ends else None


def in_maintenance(volume: Volume, now: datetime) -> bool:
    """Whether somebody needs it attached without a frontend: then nobody gets one."""
    tickets: Mapping[str, AttachmentTicket] = volume.spec.attachment_tickets or {}
    return any(one.disable_frontend and is_valid(one, now) for one in tickets.values())


def maintenance(ticket: str, owner: TicketOwner, *, now: datetime, seconds: float) -> Json:
    """What to write so that a volume is attached without a frontend for so long."""
    end = timestamp(now + timedelta(seconds=seconds))
    made = AttachmentTicket(owner=owner, since=timestamp(now), until=end, disable_frontend=True)
    return _patch({ticket: msgspec.to_builtins(made)})


def without(ticket: str) -> Json:
    """What to write so that there is no ticket of this id."""
    return _patch({ticket: None})


def _patch(tickets: Mapping[str, Any]) -> Json:
    return {"spec": {"attachmentTickets": dict(tickets)}}
