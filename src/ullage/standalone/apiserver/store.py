"""Every object, in memory as the JSON that is sent, and on disk as revisions.

    stage     checks the expected version, takes the next revision, and joins the batch that the writer commits next
    publish   after the commit is durable: readers and watchers see it, in revision order, and the request is answered

Reads see what is durable; the check of a write sees what is staged, so two writers of one object cannot both win.
Writes that arrive while a commit is on its way to disk form the next batch: one fsync for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from sys import intern

import msgspec

from ullage.standalone.apiserver.database import Change, Database, Row
from ullage.standalone.apiserver.status import Json

logger = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace ("" for cluster-scoped), name

RECENT = 2_000  # events a storage keeps in memory for its watches; older ones are read from disk
COMPACT_STEP = 2_000  # revisions a compaction transaction covers, so that writers never wait long

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class Stale(Exception):
    """The object is not at the version that the write expected."""


class Compacted(Exception):
    """The revision asked for is older than the history that is kept."""


class Entry:
    """One object at one revision. `data` is its JSON, as it is stored and sent."""

    __slots__ = ("data", "key", "rv")

    def __init__(self, key: Key, rv: int, data: bytes) -> None:
        self.key = key
        self.rv = rv
        self.data = data

    def obj(self) -> Json:
        """A copy that the caller may change."""
        found: Json = _decode(self.data)
        return found


class Event:
    """One change: the object after it (for a delete: its last state, at the delete's revision) and before it."""

    __slots__ = ("before", "data", "key", "rv", "type")

    def __init__(self, type: str, key: Key, rv: int, data: bytes, before: bytes | None) -> None:
        self.type = type
        self.key = key
        self.rv = rv
        self.data = data
        self.before = before


class Shelf:
    """One storage: its objects, and its recent events."""

    __slots__ = ("_order", "events", "floor", "objects", "touched", "waiters")

    def __init__(self, floor: int) -> None:
        self.objects: dict[Key, Entry] = {}
        self.events: list[Event] = []
        self.floor = floor  # every event above it is in `events`
        self.touched = floor
        self.waiters: set[asyncio.Future[None]] = set()
        self._order: list[Key] | None = None

    def order(self) -> list[Key]:
        if self._order is None:
            self._order = sorted(self.objects)
        return self._order

    def apply(self, event: Event) -> None:
        if event.type == "DELETED":
            del self.objects[event.key]
            self._order = None
        else:
            if event.type == "ADDED":
                self._order = None
            self.objects[event.key] = Entry(event.key, event.rv, event.data)
        self.touched = event.rv
        self.events.append(event)
        if len(self.events) > 2 * RECENT:
            self.floor = self.events[-RECENT - 1].rv
            del self.events[:-RECENT]

    def wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()


class _Staged:
    __slots__ = ("event", "future", "row")

    def __init__(self, event: Event, row: Row, future: asyncio.Future[Entry]) -> None:
        self.event = event
        self.row = row
        self.future = future


class Store:
    """The state of the API server. All methods run on the event loop; the disk is on threads behind it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._shelves: dict[str, Shelf] = {}
        self._heads: dict[tuple[str, Key], Entry] = {}  # staged, not yet durable; one without data is a delete
        self._batch: list[_Staged] = []
        self._committing: asyncio.Task[None] | None = None
        self._next = self.revision = database.newest()
        self.compacted = database.compacted()
        self.listeners: list[Callable[[str, Event], None]] = []
        for row in database.current():
            shelf = self._shelf(row.storage)
            key = (intern(row.namespace), row.name)
            shelf.objects[key] = Entry(key, row.rv, row.data)

    def _shelf(self, storage: str) -> Shelf:
        shelf = self._shelves.get(storage)
        if shelf is None:
            # A new shelf has no memory of what was before this start: its floor sends old watches to the disk.
            shelf = self._shelves[intern(storage)] = Shelf(self.revision)
        return shelf

    # --- reads: what is durable ---

    def get(self, storage: str, namespace: str, name: str) -> Entry | None:
        return self._shelf(storage).objects.get((namespace, name))

    def items(self, storage: str, namespace: str = "") -> list[Entry]:
        """The objects of a storage, or of one namespace of it, in key order."""
        shelf = self._shelf(storage)
        objects, order = shelf.objects, shelf.order()
        if not namespace:
            return [objects[key] for key in order]
        first = bisect_right(order, (namespace, ""))
        last = bisect_right(order, (namespace + "\0", ""))
        return [objects[key] for key in order[first:last]]

    def count(self, storage: str) -> int:
        return len(self._shelf(storage).objects)

    def touched(self, storage: str) -> int:
        """The revision of the storage's last change: a key for anything derived from its objects."""
        return self._shelf(storage).touched

    def storages(self) -> list[str]:
        return [name for name, shelf in self._shelves.items() if shelf.objects]

    async def page(self, storage: str, *, at: int, namespace: str, start: Key, limit: int) -> list[Entry]:
        """Up to `limit` objects behind the key `start`, as they stood at revision `at`."""
        if at >= self.touched(storage) and at <= self.revision:
            return self._page_now(storage, namespace, start, limit)
        if at < self.compacted:
            raise Compacted
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(
            self._reader,
            lambda: self._database.page(storage, at=at, namespace=namespace, start=start, limit=limit),
        )
        if at < self.compacted:  # it was compacted while we read
            raise Compacted
        return [Entry((row.namespace, row.name), row.rv, row.data) for row in rows]

    def _page_now(self, storage: str, namespace: str, start: Key, limit: int) -> list[Entry]:
        shelf = self._shelf(storage)
        order = shelf.order()
        first = bisect_right(order, max(start, (namespace, "")))
        last = bisect_right(order, (namespace + "\0", "")) if namespace else len(order)
        if limit:
            last = min(last, first + limit)
        return [shelf.objects[key] for key in order[first:last]]

    # --- writes ---

    def head(self, storage: str, namespace: str, name: str) -> Entry | None:
        """The newest state, staged ones included: what the next write must build on."""
        staged = self._heads.get((storage, (namespace, name)))
        if staged is None:
            return self.get(storage, namespace, name)
        return staged if staged.data else None

    def stage(self, storage: str, obj: Json, *, expect: int) -> asyncio.Future[Entry]:
        """Writes the object if its newest version is `expect` (0: it must not exist); await the result for durability.

        The object's `metadata.resourceVersion` is set here. Raises `Stale` at once where the version is another.
        """
        meta = obj["metadata"]
        key = (intern(meta.get("namespace", "")), meta["name"])
        before = self.head(storage, *key)
        if (before.rv if before else 0) != expect:
            raise Stale
        rv = self._take(obj)
        data = _encode(obj)
        event = Event("MODIFIED" if before else "ADDED", key, rv, data, before.data if before else None)
        return self._enqueue(storage, event, prev=before.rv if before else 0)

    def stage_delete(self, storage: str, obj: Json, *, expect: int) -> asyncio.Future[Entry]:
        """Removes the object; `obj` is its last state, which watchers receive at the revision of the delete."""
        meta = obj["metadata"]
        key = (intern(meta.get("namespace", "")), meta["name"])
        before = self.head(storage, *key)
        if before is None or before.rv != expect:
            raise Stale
        rv = self._take(obj)
        return self._enqueue(storage, Event("DELETED", key, rv, _encode(obj), before.data), prev=before.rv)

    def _take(self, obj: Json) -> int:
        self._next += 1
        obj["metadata"]["resourceVersion"] = str(self._next)
        return self._next

    def _enqueue(self, storage: str, event: Event, *, prev: int) -> asyncio.Future[Entry]:
        loop = asyncio.get_running_loop()
        deleted = event.type == "DELETED"
        self._heads[storage, event.key] = Entry(event.key, event.rv, b"" if deleted else event.data)
        row = Row(event.rv, intern(storage), *event.key, prev, int(deleted), event.data)
        staged = _Staged(event, row, loop.create_future())
        self._batch.append(staged)
        if self._committing is None:
            self._committing = loop.create_task(self._commit())
        # Shielded: the write is on its way, whatever becomes of the request that waits for it.
        return asyncio.shield(staged.future)

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._batch:
                batch, self._batch = self._batch, []
                rows = [staged.row for staged in batch]
                try:
                    await loop.run_in_executor(self._writer, self._database.append, rows)
                except Exception as error:
                    logger.exception("commit failed", extra={"writes": len(rows)})
                    self._fail(batch, error)
                else:
                    self._publish(batch)
        finally:
            self._committing = None

    def _fail(self, batch: list[_Staged], error: Exception) -> None:
        """Everything staged since stands on writes that did not happen: all of it fails."""
        batch += self._batch
        self._batch = []
        self._heads.clear()
        for staged in batch:
            if not staged.future.done():
                staged.future.set_exception(error)
                staged.future.exception()  # a request that went away does not fetch it

    def _publish(self, batch: list[_Staged]) -> None:
        woken: dict[str, Shelf] = {}
        for staged in batch:
            event, storage = staged.event, staged.row.storage
            shelf = self._shelf(storage)
            shelf.apply(event)
            woken[storage] = shelf
            self.revision = event.rv
            head = self._heads.get((storage, event.key))
            if head is not None and head.rv == event.rv:  # nothing newer is staged
                del self._heads[storage, event.key]
            for listener in self.listeners:
                listener(storage, event)
            if not staged.future.done():
                staged.future.set_result(Entry(event.key, event.rv, event.data))
        for shelf in woken.values():
            shelf.wake()

    # --- watches ---

    async def changes(self, storage: str, after: int) -> list[Event]:
        """Events above a revision, oldest first: as many as are at hand, none if there are none. Raises `Compacted`."""
        shelf = self._shelf(storage)
        if after >= shelf.floor:
            return shelf.events[bisect_right(shelf.events, after, key=attrgetter("rv")) :]
        if after < self.compacted:
            raise Compacted
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._reader, lambda: self._database.changes(storage, after=after, limit=500))
        if after < self.compacted:
            raise Compacted
        # Rows that are on disk but not yet published wait for their turn: nobody sees a change before its writer does.
        events = [_event(change) for change in found if change.row.rv <= self.revision]
        if not events:
            return shelf.events[bisect_right(shelf.events, after, key=attrgetter("rv")) :]
        return events

    async def changed(self, storage: str, after: int, timeout: float) -> None:
        """Returns when the storage has changed above the revision, or after the timeout."""
        shelf = self._shelf(storage)
        if shelf.touched > after:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        shelf.waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout)
        finally:
            shelf.waiters.discard(waiter)

    def wake(self) -> None:
        """Wakes every watch, change or not."""
        for shelf in self._shelves.values():
            shelf.wake()

    # --- upkeep ---

    async def compact(self, upto: int) -> None:
        """Forgets history at and below a revision. The newest revision always stays: it carries the counter."""
        loop = asyncio.get_running_loop()
        upto = min(upto, self.revision - 1)
        while self.compacted < upto:
            after, self.compacted = self.compacted, min(self.compacted + COMPACT_STEP, upto)
            await loop.run_in_executor(self._writer, self._database.compact, after, self.compacted)

    async def close(self) -> None:
        while self._committing is not None:
            await asyncio.shield(self._committing)
        self._writer.shutdown()
        self._reader.shutdown()
        self._database.close()


def _event(change: Change) -> Event:
    row = change.row
    kind = "DELETED" if row.deleted else "MODIFIED" if row.prev else "ADDED"
    return Event(kind, (row.namespace, row.name), row.rv, row.data, change.before)
