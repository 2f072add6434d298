"""Attachment tickets: made once, renewed in time, taken away when nobody needs them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.engines.builders import snapshot, volume
from ullage.engines import tickets
from ullage.engines.api import AttachmentTicket, TicketOwner, Volume, VolumeSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0


def held(until: str, *, kind: str = "Snapshot") -> Volume:
    ticket = AttachmentTicket(owner=TicketOwner(kind=kind, name="snap", uid="uid-snap"), until=until)
    return Volume(metadata=volume().metadata, spec=VolumeSpec(attachment_tickets={"snapshot-uid-snap": ticket}))


def test_a_ticket_names_its_owner_and_its_end() -> None:
    assert tickets.demand(volume(), snapshot(), now=NOW, seconds=HOUR) == {
        "spec": {
            "attachmentTickets": {
                "snapshot-uid-snap": {
                    "owner": {"kind": "Snapshot", "name": "snap", "uid": "uid-snap"},
                    "since": "2026-01-01T00:00:00Z",
                    "until": "2026-01-01T01:00:00Z",
                }
            }
        }
    }


@pytest.mark.parametrize(
    ("until", "renewed"),
    [
        pytest.param("2026-01-01T00:31:00Z", False, id="good for more than half the time"),
        pytest.param("2026-01-01T00:30:00Z", True, id="good for half the time"),
        pytest.param("2025-12-31T23:00:00Z", True, id="over"),
        pytest.param("tomorrow", True, id="no date"),
        pytest.param("2027-01-01", True, id="a date without a time zone"),
        pytest.param("", True, id="no end"),
    ],
)
def test_a_ticket_is_renewed_in_time(until: str, renewed: bool) -> None:
    assert (tickets.demand(held(until), snapshot(), now=NOW, seconds=HOUR) is not None) is renewed


def test_a_ticket_is_given_back_once() -> None:
    given_back = {"spec": {"attachmentTickets": {"snapshot-uid-snap": None}}}
    assert tickets.release(volume(ticket=True), snapshot()) == given_back
    assert tickets.release(volume(), snapshot()) is None
    assert tickets.release(volume(ticket=True), snapshot(name="other")) is None


@pytest.mark.parametrize(
    ("found", "wanted", "reaped"),
    [
        pytest.param(held("2026-01-01T01:00:00Z"), True, False, id="somebody needs it"),
        pytest.param(held("2026-01-01T01:00:00Z"), False, True, id="nobody needs it"),
        pytest.param(held("2026-01-01T00:00:00Z"), True, True, id="it is over, and its owner makes another"),
        pytest.param(held("2026-01-01T01:00:00Z", kind="Backup"), False, False, id="others know themselves"),
        pytest.param(held("2026-01-01T00:00:00Z", kind="Backup"), True, True, id="unless it is over"),
        pytest.param(volume(), True, False, id="there is none"),
    ],
)
def test_what_is_reaped(found: Volume, wanted: bool, reaped: bool) -> None:
    assert (tickets.reap(found, lambda owner: wanted, now=NOW) is not None) is reaped


def test_the_reaper_comes_back_when_the_first_one_ends() -> None:
    assert tickets.next_end(held("2026-01-01T00:10:00Z"), NOW) == timedelta(minutes=10).total_seconds()
    assert tickets.next_end(held("2025-01-01T00:10:00Z"), NOW) is None
    assert tickets.next_end(volume(), NOW) is None
