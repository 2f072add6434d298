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
from ullage.snapshots.model import Dialect, Record

# By driver and handle: the records that name it and are to stay, each with the namespace of its snapshot, by uid.
Holders = dict[tuple[str, str], dict[str, str]]


class LiveRecords:
    """The records of all APIs, as they are now."""

    def __init__(self, client: Client, dialects: Iterable[Dialect[Any, Any]]) -> None:
        self._client = client
        self._dialects = tuple(dialects)
        self._running: asyncio.Task[Holders] | None = None
        self._next: asyncio.Task[Holders] | None = None

    async def shares(self, record: Record) -> bool:
        """Whether another record that is to stay names the same snapshot of the driver."""
        holders = await asyncio.shield(self._read_after_now())
        return bool(holders.get((record.driver, record.handle), {}).keys() - {record.meta.uid})

    async def used_outside(self, namespace: str, driver: str, handles: Iterable[str]) -> bool:
        """Whether a record that is to stay names one of these snapshots of the driver for another namespace."""
        holders = await asyncio.shield(self._read_after_now())
        return any(found != namespace for one in handles for found in holders.get((driver, one), {}).values())

    def _read_after_now(self) -> asyncio.Task[Holders]:
        """A read that begins after this call: one that runs already may have passed what was written since."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_retrieve)
        return self._next

    async def _after(self, running: asyncio.Task[Holders] | None) -> Holders:
        if running is not None:
            await asyncio.wait((running,))
        self._running, self._next = self._next, None
        return await self._read()

    async def _read(self) -> Holders:
        found: Holders = {}
        for dialect in self._dialects:
            for obj in await self._all(dialect.records):
                record = dialect.read_record(obj)
                if record.handle and record.meta.deletion_timestamp is None:
                    found.setdefault((record.driver, record.handle), {})[record.meta.uid] = record.ref.namespace
        return found

    async def _all(self, kind: Kind[Any]) -> list[Any]:
        try:
            return (await self._client.list(kind)).items
        except NotFound:
            if await self._client.absent(kind):
                return []
            raise


def _retrieve(task: asyncio.Task[Holders]) -> None:
    """Whoever asked may have gone; asyncio would complain about an error that nobody saw."""
    if not task.cancelled():
        task.exception()
