"""Every object, in memory as the JSON that is sent, and on disk as revisions.

    stage     checks the expected version, takes the next revision, and joins the batch that the writer commits next
    publish   after the commit is durable: readers and watchers see it, in revision order, and the request is answered

Reads see what is durable; the check of a write sees what is staged, so two writers of one object cannot both win. Whoever
answers by what is staged without staging anything (a conflict, a change that changes nothing) waits for `settled` first.
Writes that arrive while a commit is on its way to disk form the next batch: one fsync for all of them.

Everything has a bound in bytes (`Limits`): one object, all objects, recent events in memory, old versions on disk. Whoever
writes more history than is kept waits while the oldest goes.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from sys import intern
from typing import TypeVar

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.settings import Limits
from ullage.standalone.apiserver.status import internal_error
from ullage.standalone.apiserver.storage.database import Change, Database, Revision
from ullage.standalone.apiserver.storage.entries import Entry, Event, Key
from ullage.standalone.apiserver.storage.history import History
from ullage.standalone.apiserver.storage.sizes import OBJECT_BYTES, check_size, growth
from ullage.standalone.apiserver.storage.watch_cache import TAKEN, TAKEN_BYTES, WatchCache

logger = logging.getLogger(__name__)

T = TypeVar("T")

COMPACT_STEP = 2_000  # revisions a compaction transaction covers, so that writers never wait long
COMPACT_BYTES = 8 << 20  # and bytes that it frees
BATCH_BYTES = 8 << 20  # that one commit takes: the next compaction has its turn soon
PAGE_BYTES = 8 << 20  # that one read of a list in the past brings into memory
JOURNAL_LEFT = 1 << 20  # bytes of journal that are not worth the trouble

_encode = msgspec.json.encode


class Stale(Exception):
    """The object is not at the version that the write expected."""


class Compacted(Exception):
    """The revision asked for is older than the history that is kept."""


class _Staged:
    """A write on its way to disk. `entry` is the object after it, None after a delete; `growth` is in bytes of all objects."""

    __slots__ = ("entry", "event", "future", "growth", "row")

    def __init__(self, event: Event, row: Revision, future: asyncio.Future[Entry]) -> None:
        self.event = event
        self.row = row
        self.future = future
        self.entry = None if row.deleted else Entry(event.key, event.rv, event.data)
        self.growth = growth(event)


class Store:
    """The state of the API server. All methods run on the event loop; the disk is on threads behind it."""

    def __init__(self, database: Database, limits: Limits | None = None) -> None:
        self._database = database
        self._limits = limits or Limits()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._shelves: dict[str, WatchCache] = {}
        self._heads: dict[tuple[str, Key], _Staged] = {}  # the newest write of each key that is not durable yet
        self._batch: list[_Staged] = []
        self._committing: asyncio.Task[None] | None = None
        self._compacting = asyncio.Lock()
        self._next = self.revision = database.newest()
        self.compacted = database.compacted()
        self.history = History()
        self.size = 0  # bytes of all objects, what is staged included
        self.recent = 0  # bytes of the events in memory
        self.broken = ""  # why the last write to the disk failed; empty when the disk takes them
        self.listeners: list[Callable[[str, Event], None]] = []
        self.closed: set[str] = set()  # storages in which nothing may come into being: their kind is on its way out
        for row in database.current():
            shelf = self._shelf(row.storage)
            key = (intern(row.namespace), row.name)
            shelf.objects[key] = Entry(key, row.rv, row.data)
            self.size += len(row.data) + OBJECT_BYTES
        for rv, size in database.superseded(self.compacted):
            self.history.add(rv, size)

    def _shelf(self, storage: str) -> WatchCache:
        shelf = self._shelves.get(storage)
        if shelf is None:
            # A new shelf has no memory of what was before this start: its floor sends old watches to the disk.
            shelf = self._shelves[intern(storage)] = WatchCache(self.revision)
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
        """Some objects behind the key `start`, up to `limit` (0: no limit), as they stood at revision `at`.

        Less than `limit` does not mean that there are no more, none does: the disk is read in pieces. Raises `Compacted`.
        """
        if self._is_present(storage, at):
            keys = self._keys_now(storage, namespace, start)
            objects = self._shelf(storage).objects
            return [objects[key] for key in (keys[:limit] if limit else keys)]
        read = partial(self._database.page, storage, at=at, namespace=namespace, start=start, limit=limit, most=PAGE_BYTES)
        rows = await self._read(at, read)
        objects = self._shelf(storage).objects
        found = [Entry((row.namespace, row.name), row.rv, row.data) for row in rows]
        # What is still as it was is held once: the rest is history, and that has a bound.
        return [now if (now := objects.get(old.key)) and now.rv == old.rv else old for old in found]

    async def remaining(self, storage: str, *, at: int, namespace: str, start: Key) -> int:
        """How many objects there are behind a key at a revision."""
        if self._is_present(storage, at):
            return len(self._keys_now(storage, namespace, start))
        return await self._read(at, lambda: self._database.count(storage, at=at, namespace=namespace, start=start))

    def _is_present(self, storage: str, at: int) -> bool:
        """Whether the storage stood at the revision as it stands now. Raises `Compacted`.

        A compaction ends the history of all kinds at once, as etcd's does, and not only of those that changed since: what
        this process remembers of a kind's last change is gone after a restart, and must not decide what a client is told.
        """
        if at < self.compacted:
            raise Compacted
        return self.touched(storage) <= at <= self.revision

    def _keys_now(self, storage: str, namespace: str, start: Key) -> list[Key]:
        order = self._shelf(storage).order()
        first = bisect_right(order, max(start, (namespace, "")))
        last = bisect_right(order, (namespace + "\0", "")) if namespace else len(order)
        return order[first:last]

    async def _read(self, at: int, read: Callable[[], T]) -> T:
        """Something from the history at or above a revision."""
        if at < self.compacted:
            raise Compacted
        found = await asyncio.get_running_loop().run_in_executor(self._reader, read)
        if at < self.compacted:  # it was compacted while we read
            raise Compacted
        return found

    # --- writes ---

    def head(self, storage: str, namespace: str, name: str) -> Entry | None:
        """The newest state, staged ones included: what the next write must build on."""
        staged = self._heads.get((storage, (namespace, name)))
        return self.get(storage, namespace, name) if staged is None else staged.entry

    def staged(self, storage: str) -> list[Entry]:
        """What will be in a storage once it is durable, and is not yet read."""
        return [head.entry for (place, _), head in self._heads.items() if place == storage and head.entry is not None]

    async def settled(self, storage: str, namespace: str, name: str) -> None:
        """Returns when what `head` showed is durable; raises what its commit raised."""
        staged = self._heads.get((storage, (namespace, name)))
        if staged is not None:
            await asyncio.shield(staged.future)

    def stage(self, storage: str, obj: Json, *, expect: int) -> asyncio.Future[Entry]:
        """Writes the object if its newest version is `expect` (0: it must not exist); await the result for durability.

        The object's `metadata.resourceVersion` is set here. Raises `Stale` at once where the version is another.
        """
        meta = obj["metadata"]
        key = (intern(meta.get("namespace", "")), meta["name"])
        before = self.head(storage, *key)
        if (before.rv if before else 0) != expect:
            raise Stale
        rv, data = self._numbered(obj)
        event = Event("MODIFIED" if before else "ADDED", key, rv, data, before.data if before else None)
        check_size(event, obj, used=self.size, limits=self._limits)
        return self._enqueue(storage, event, prev=before.rv if before else 0)

    def stage_delete(self, storage: str, obj: Json, *, expect: int) -> asyncio.Future[Entry]:
        """Removes the object; `obj` is its last state, which watchers receive at the revision of the delete."""
        meta = obj["metadata"]
        key = (intern(meta.get("namespace", "")), meta["name"])
        before = self.head(storage, *key)
        if before is None or before.rv != expect:
            raise Stale
        rv, data = self._numbered(obj)
        return self._enqueue(storage, Event("DELETED", key, rv, data, before.data), prev=before.rv)

    def _numbered(self, obj: Json) -> tuple[int, bytes]:
        rv = self._next + 1
        obj["metadata"]["resourceVersion"] = str(rv)
        return rv, _encode(obj)

    def _enqueue(self, storage: str, event: Event, *, prev: int) -> asyncio.Future[Entry]:
        loop = asyncio.get_running_loop()
        row = Revision(event.rv, intern(storage), *event.key, prev, int(event.type == "DELETED"), event.data)
        staged = self._heads[storage, event.key] = _Staged(event, row, loop.create_future())
        self._batch.append(staged)
        self._next = event.rv
        self.size += staged.growth
        if self._committing is None:
            self._committing = loop.create_task(self._commit())
        # Shielded: the write is on its way, whatever becomes of the request that waits for it.
        return asyncio.shield(staged.future)

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._batch:
                batch = self._next_batch()
                rows = [staged.row for staged in batch]
                try:
                    await loop.run_in_executor(self._writer, self._database.append, rows)
                except Exception as error:
                    logger.exception("commit failed", extra={"writes": len(rows)})
                    self._fail(batch, error)
                else:
                    self._publish(batch)
                    await self.shorten()  # the next commit waits for it: history cannot be outrun
        finally:
            self._committing = None

    def _next_batch(self) -> list[_Staged]:
        size = count = 0
        for staged in self._batch:
            size += len(staged.event.data)
            if count and size > BATCH_BYTES:
                break
            count += 1
        batch, self._batch = self._batch[:count], self._batch[count:]
        return batch

    async def shorten(self) -> None:
        """Drops some of the oldest history where there is more than its bound: as much as one commit can have made."""
        upto = self.history.reach(self.history.size - self._limits.history)
        if upto:
            try:
                await self.compact(upto, steps=2)
            except Exception:  # a full disk, say: there is a little more history, and nothing else may suffer from it
                logger.exception("history could not be dropped", extra={"upto": upto})

    def _fail(self, batch: list[_Staged], error: Exception) -> None:
        """Everything staged since stands on writes that did not happen: all of it fails."""
        self.broken = str(error) or type(error).__name__
        batch += self._batch
        self._batch = []
        self._heads.clear()
        for staged in batch:
            self.size -= staged.growth
            if not staged.future.done():
                staged.future.set_exception(_unwritten(self.broken))
                staged.future.exception()  # a request that went away does not fetch it

    def _publish(self, batch: list[_Staged]) -> None:
        woken: dict[str, WatchCache] = {}
        self.broken = ""
        for staged in batch:
            event, storage = staged.event, staged.row.storage
            shelf = self._shelf(storage)
            self.recent -= shelf.weight
            shelf.apply(event)
            self.recent += shelf.weight
            woken[storage] = shelf
            if event.before is not None:
                self.history.add(event.rv, len(event.before) + (len(event.data) if event.type == "DELETED" else 0))
            self.revision = event.rv
            if self._heads.get((storage, event.key)) is staged:  # nothing newer is staged
                del self._heads[storage, event.key]
            self._tell(storage, event)
            if not staged.future.done():
                staged.future.set_result(Entry(event.key, event.rv, event.data))
        for shelf in woken.values():
            shelf.wake()
        if self.recent > 2 * self._limits.recent:
            self._trim()

    def _trim(self) -> None:
        """Brings the events in memory within their bound: kinds with few keep theirs, the others share what is left."""
        left, shelves = self._limits.recent, sorted(self._shelves.values(), key=attrgetter("weight"))
        for number, shelf in enumerate(shelves):
            share = left // (len(shelves) - number)
            if shelf.weight > share:
                shelf.trim(share)
            left -= shelf.weight
        self.recent = self._limits.recent - left

    def _tell(self, storage: str, event: Event) -> None:
        """What is durable is published, whatever a listener makes of it."""
        for listener in self.listeners:
            try:
                listener(storage, event)
            except Exception:
                logger.exception("listener failed", extra={"storage": storage, "key": event.key, "revision": event.rv})

    # --- watches ---

    async def changes(self, storage: str, after: int, *, before: bool = True) -> list[Event]:
        """Some events above a revision, oldest first and without a gap. Raises `Compacted`. Those that come from disk carry
        what was before only if it is asked for.

        None means that there was none up to the revision at which the store was when it was asked.
        """
        shelf = self._shelf(storage)
        if after >= shelf.floor:
            return shelf.after(after)
        read = partial(self._database.changes, storage, after=after, limit=TAKEN, most=TAKEN_BYTES, before=before)
        found = await self._read(after, read)
        # Rows that are on disk but not yet published wait for their turn: nobody sees a change before its writer does.
        return [_event(change) for change in found if change.row.rv <= self.revision]

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

    def wake(self, storage: str = "") -> None:
        """Wakes the watches of a storage, or all of them, change or not."""
        for shelf in [self._shelf(storage)] if storage else self._shelves.values():
            shelf.wake()

    # --- upkeep ---

    async def compact(self, upto: int, *, steps: int = sys.maxsize) -> None:
        """Forgets history at and below a revision, or as much of it as goes in so many steps.

        The newest revision always stays: it carries the counter.
        """
        upto = min(upto, self.revision - 1)
        while self.compacted < upto and steps:
            steps -= 1
            async with self._compacting:
                # Readers are told before anything is gone; where it failed, nothing is.
                after, self.compacted = self.compacted, max(self._step(upto), self.compacted)
                try:
                    await self._work(partial(self._database.compact, after, self.compacted))
                except Exception:
                    self.compacted = after
                    raise
                self.history.forget(self.compacted)

    def _step(self, upto: int) -> int:
        """How far one transaction goes."""
        return min(self.compacted + COMPACT_STEP, upto, self.history.reach(COMPACT_BYTES) or upto)

    async def tidy(self, *, pages: int, slack: int) -> bool:
        """Gives one slice of free space back to the file system, or empties the journal when the slices are done. Whether
        there is more to do."""
        free = await self._work(self._database.free_pages)
        if free > slack:
            await self._work(partial(self._database.vacuum, min(pages, free - slack)))
            return True
        if self._committing is None and self._database.journal_bytes() > JOURNAL_LEFT:
            await self._work(self._database.checkpoint)
        return False

    def marks(self) -> list[tuple[int, int]]:
        """Revisions, and the second in which each was the newest."""
        return self._database.marks()

    async def mark(self, second: int, *, keep: int) -> None:
        """Notes which revision is the newest. Of the marks before the second `keep`, the last one stays."""
        await self._work(partial(self._database.mark, self.revision, second, keep))

    async def probe(self) -> None:
        """Whether a disk that failed takes writes again: whoever waits for that does not write himself."""
        try:
            await self._work(self._database.probe)
        except Exception as error:
            self.broken = str(error) or type(error).__name__
        else:
            self.broken = ""

    async def _work(self, work: Callable[[], T]) -> T:
        """Something on the writer's thread, after what is there already."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    def forget(self, storage: str) -> None:
        """Drops the memory of a storage whose kind is gone and that nothing is left in. Its watches are woken."""
        shelf = self._shelves.get(storage)
        if shelf is None:
            return
        if not shelf.objects and not any(place == storage for place, _ in self._heads):
            del self._shelves[storage]
            self.recent -= shelf.weight
        shelf.wake()

    async def close(self) -> None:
        while self._committing is not None:
            await asyncio.shield(self._committing)
        self._writer.shutdown()
        self._reader.shutdown()
        self._database.close()


def _unwritten(reason: str) -> Exception:
    return internal_error(f"the database cannot be written: {reason}")


def _event(change: Change) -> Event:
    row = change.row
    kind = "DELETED" if row.deleted else "MODIFIED" if row.prev else "ADDED"
    return Event(kind, (row.namespace, row.name), row.rv, row.data, change.before)
