"""Reads and writes the data of a volume through the host of the embedded engines, while the volume is held attached.

A ticket in the Volume holds it; it is taken back at the end, and runs out by itself where this process cannot do that any
more. Longhorn's own volumes are devices on their nodes: nothing here reaches them, and that is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from ullage.cli.volume.reading import FoundVolume, NoEngine
from ullage.clock import Clock
from ullage.engines.api import ENGINES, RUNNING, VOLUMES, AttachmentTicket, Engine, TicketOwner, Volume
from ullage.engines.client.channels import Channels
from ullage.engines.client.host import PIECE, HostClient
from ullage.errors import Retryable
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.times import timestamp

HELD: Final = timedelta(minutes=5)  # how long a ticket is good for, unless it is renewed
TIMEOUT_SECONDS: Final = 30.0
_RENEWED_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.1
_SOCKET: Final = "unix://"
_OWNER: Final = "Command"


class NotAttached(Retryable):
    """Nobody attached the volume in time."""


@dataclass(slots=True)
class Ticket:
    """Our demand that a volume be attached. `id` is nobody else's."""

    client: Client
    volume: Volume
    id: str
    clock: Clock
    renewed: float = field(default=float("-inf"), init=False)

    async def keep(self) -> Volume | None:
        """Makes it, or renews it when that is due; the volume as it is then."""
        if self.clock.monotonic() - self.renewed < _RENEWED_SECONDS:
            return None
        now = self.clock.now()
        owner = TicketOwner(kind=_OWNER, name="ullage-volume")
        ticket = AttachmentTicket(owner=owner, since=timestamp(now), until=timestamp(now + HELD))
        written = await self._write(msgspec.to_builtins(ticket))
        self.renewed = self.clock.monotonic()
        return written

    async def give_back(self) -> None:
        with contextlib.suppress(NotFound):
            await self._write(None)

    async def _write(self, value: object) -> Volume:
        meta, change = self.volume.metadata, {"spec": {"attachmentTickets": {self.id: value}}}
        return await self.client.patch(VOLUMES, meta.name, meta.namespace, merge=change, uid=meta.uid)


@dataclass(frozen=True, slots=True)
class AttachedVolume:
    """A volume that is attached."""

    host: HostClient
    ticket: Ticket

    async def read(self, sink: Callable[[bytes], object], *, offset: int, length: int) -> None:
        for start in range(offset, offset + length, PIECE):
            await self.ticket.keep()
            sink(await self.host.read(self._name, offset=start, length=min(PIECE, offset + length - start)))

    async def write(self, pieces: Iterable[bytes], *, offset: int) -> tuple[int, str]:
        """How many bytes there were, and their SHA-256. They survive a power cut."""
        start, digest = offset, hashlib.sha256()
        for piece in pieces:
            await self.write_piece(piece, offset=start, sync=True)
            digest.update(piece)
            start += len(piece)
        return start - offset, digest.hexdigest()

    async def write_piece(self, data: bytes, *, offset: int, sync: bool) -> None:
        """With `sync` it survives a power cut, and all that was written before it."""
        await self.ticket.keep()
        await self.host.write(self._name, offset=offset, data=data, sync=sync)

    @property
    def _name(self) -> str:
        return self.ticket.volume.metadata.name


@asynccontextmanager
async def attached(
    client: Client, found: FoundVolume, *, ticket: str, clock: Clock, timeout: float = TIMEOUT_SECONDS
) -> AsyncIterator[AttachedVolume]:
    """Has the volume attached from here to the end of the block."""
    name, engine = found.volume.metadata.name, found.engine
    if engine is None:
        raise NoEngine(f"volume {name} has {len(found.engines)} engines; one is needed")
    _refuse_foreign(name, engine)
    demand = Ticket(client, found.volume, ticket, clock)
    written = await demand.keep()
    channels = Channels()
    try:
        if written is not None and ticket not in (written.spec.attachment_tickets or {}):
            raise NoEngine(_foreign(name, "by nobody now"))  # Longhorn's own definition has no such field: it was dropped
        address = await _running(client, engine, name=name, clock=clock, timeout=timeout)
        yield AttachedVolume(HostClient(channels, address), demand)
    finally:
        await channels.close()
        await demand.give_back()


async def _running(client: Client, engine: Engine, *, name: str, clock: Clock, timeout: float) -> str:
    """Where the engine is, once it runs."""
    meta, end = engine.metadata, clock.monotonic() + timeout
    while True:
        now = await client.find(ENGINES, meta.name, meta.namespace)
        if now is not None:
            _refuse_foreign(name, now)
            if now.status.current_state == RUNNING and now.status.endpoint:
                return _here(name, now.status.endpoint)
        if clock.monotonic() >= end:
            state = (now.status.current_state if now is not None else "gone") or "not started"
            raise NotAttached(f"volume {name} was not attached within {timeout:g} s: engine {meta.name} is {state}")
        await asyncio.sleep(_PAUSE_SECONDS)


def _refuse_foreign(name: str, engine: Engine) -> None:
    endpoint = engine.status.endpoint
    if endpoint and not endpoint.startswith(_SOCKET):
        raise NoEngine(_foreign(name, f"at {endpoint}"))


def _foreign(name: str, where: str) -> str:
    return (
        f"volume {name} is Longhorn's own, offered {where}: its data is read and written on its node; "
        "only volumes of `ullage up` can be from here"
    )


def _here(name: str, address: str) -> str:
    path = Path(address.removeprefix(_SOCKET))
    if not path.is_socket():
        raise NoEngine(f"volume {name} is served on {path}, which is not on this machine; run this where `ullage up` runs")
    return address
