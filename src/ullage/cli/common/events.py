"""Events about an object: how a command reads them, and how they read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ullage.cli.common.session import readable
from ullage.cli.common.text import NONE, age, aligned, plain
from ullage.kube.builtin.events import EVENTS, Event
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden
from ullage.kube.kinds import Object


async def events_of(client: Client, obj: Object, *, type: str = "") -> list[Event]:
    """The oldest first. Where events may not be read there are none."""
    chosen = f"regarding.uid={obj.metadata.uid}" + (f",type={type}" if type else "")
    listing = await readable(client.list(EVENTS, obj.metadata.namespace, fields=chosen))
    return [] if isinstance(listing, Forbidden) else sorted(listing.items, key=lambda one: one.last_seen)


def event_table(events: Sequence[Event], now: datetime) -> str:
    if not events:
        return "No events."
    rows = [("EVENT", "LAST SEEN", "REASON", "MESSAGE")]
    for one in events:
        times = f" (x{one.count})" if one.count > 1 else ""
        rows.append((one.type or NONE, f"{age(one.last_seen, now)}{times}", one.reason, plain(one.note)))
    return aligned(rows)
