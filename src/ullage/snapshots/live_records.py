"""Whether a snapshot of a storage system is named by another record too, asked of the API itself.

A cache may be behind, and what is deleted does not come back. No selector finds a record by its handle, so all are read.
Whoever asks while a read is under way shares the next one: many deletions at a time cost few reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.snapshots.lookup import NamedRecord
from ullage.snapshots.model import Dialect, Record

# By driver and handle: the records that name it and are to stay.
ByHandle = dict[tuple[str, str], list[NamedRecord]]


class LiveRecords:
    """The records of all APIs, as they are now."""

    def __init__(self, client: Client, dialects: Iterable[Dialect[Any, Any]]) -> None:
        self._client = client
        self._dialects = tuple(dialects)
        self._running: asyncio.Task[ByHandle] | None = None
        self._next: asyncio.Task[ByHandle] | None = None

    async def others(self, record: Record) -> list[NamedRecord]:
        """The other records that are to stay and name the same snapshot of the driver."""
        found = await asyncio.shield(self._read_after_now())
        return [one for one in found.get((record.driver, record.handle), ()) if one.record.meta.uid != record.meta.uid]

    async def used_outside(self, namespace: str, driver: str, handles: Iterable[str]) -> bool:
        """Whether a record that is to stay names one of these snapshots of the driver for another namespace."""
        found = await asyncio.shield(self._read_after_now())
        return any(other.record.ref.namespace != namespace for one in handles for other in found.get((driver, one), ()))

    def _read_after_now(self) -> asyncio.Task[ByHandle]:
        """A read that begins after this call: one that runs already may have passed what was written since."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_retrieve)
        return self._next

    async def _after(self, running: asyncio.Task[ByHandle] | None) -> ByHandle:
        if running is not None:
            await asyncio.wait((running,))
        self._running, self._next = self._next, None
        return await self._read()

    async def _read(self) -> ByHandle:
        found: ByHandle = {}
        for dialect in self._dialects:
            for obj in await self._all(dialect.records):
                record = dialect.read_record(obj)
                if record.handle and record.meta.deletion_timestamp is None:
                    found.setdefault((record.driver, record.handle), []).append(NamedRecord(dialect.records, record))
        return found

    async def _all(self, kind: Kind[Any]) -> list[Any]:
        try:
            return (await self._client.list(kind)).items
        except NotFound:
            if await self._client.absent(kind):
                return []
            raise


def _retrieve(task: asyncio.Task[ByHandle]) -> None:
    """Whoever asked may have gone; asyncio would complain about an error that nobody saw."""
    if not task.cancelled():
        task.exception()
