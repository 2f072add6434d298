"""Every object, in memory as the JSON that is sent, and on disk as revisions.

    stage     checks the expected version, takes the next revision, and joins the batch that is committed next (`commits`)
    publish   after the commit is durable: readers and watchers see it, in revision order, and the request is answered

Reads see what is durable; the check of a write sees what is staged, so two writers of one object cannot both win. Whoever
answers by what is staged without staging anything (a conflict, a change that changes nothing) waits for `settled` first.

Everything has a bound in bytes (`Limits`): one object, all objects, recent events in memory, old versions on disk. Whoever
writes more history than is kept waits while the oldest goes (`compaction`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from sys import intern
from typing import TypeVar

import msgspec

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.settings import Limits
from ullage.standalone.apiserver.storage.commits import CommitQueue, Remaining, Staged, forever
from ullage.standalone.apiserver.storage.compaction import Compaction
from ullage.standalone.apiserver.storage.database import Change, Database
from ullage.standalone.apiserver.storage.entries import Entry, Event, Key, Write
from ullage.standalone.apiserver.storage.history import History
from ullage.standalone.apiserver.storage.sizes import OBJECT_BYTES, check_size, growth
from ullage.standalone.apiserver.storage.watch_cache import TAKEN, TAKEN_BYTES, WatchCache, WatchCaches

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAGE_BYTES = 8 << 20  # that one read of a list in the past brings into memory
JOURNAL_LEFT = 1 << 20  # bytes of journal that are not worth the trouble

_encode = msgspec.json.encode


class Stale(Exception):
    """The object is not at the version that the write expected."""


class Compacted(Exception):
    """The revision asked for is older than the history that is kept."""


class Store:
    """The state of the API server. All methods run on the event loop; the disk is on threads behind it."""

    def __init__(self, database: Database, limits: Limits | None = None, *, remaining: Remaining = forever) -> None:
        self._database = database
        self._limits = limits or Limits()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        newest = database.newest()
        self._caches = WatchCaches(newest, most=self._limits.recent)
        self._compaction = Compaction(database, most=self._limits.history, newest=lambda: self.revision, work=self._work)
        self._commits = CommitQueue(
            newest, remaining, append=database.append, work=self._work, publish=self._publish, after=self._compaction.shorten
        )
        self.listeners: list[Callable[[str, Event], None]] = []
        self.closed: set[str] = set()  # storages in which nothing may come into being: their kind is on its way out
        for row in database.current():
            key = (intern(row.namespace), row.name)
            self._caches.of(row.storage).objects[key] = Entry(key, row.rv, row.data)
            self._commits.size += len(row.data) + OBJECT_BYTES

    @property
    def revision(self) -> int:
        """The newest revision that readers see."""
        return self._caches.revision

    @property
    def compacted(self) -> int:
        """The revision below which nothing can be read."""
        return self._compaction.compacted

    @property
    def history(self) -> History:
        return self._compaction.history

    @property
    def size(self) -> int:
        """Bytes of all objects, what is staged included."""
        return self._commits.size

    @property
    def recent(self) -> int:
        """Bytes of the events in memory."""
        return self._caches.recent

    @property
    def broken(self) -> str:
        """Why the last write to the disk failed; empty when the disk takes them."""
        return self._commits.broken

    # --- reads: what is durable ---

    def get(self, storage: str, namespace: str, name: str) -> Entry | None:
        return self._caches.of(storage).objects.get((namespace, name))

    def items(self, storage: str, namespace: str = "") -> list[Entry]:
        """The objects of a storage, or of one namespace of it, in key order."""
        cache = self._caches.of(storage)
        objects, order = cache.objects, cache.order()
        if not namespace:
            return [objects[key] for key in order]
        first = bisect_right(order, (namespace, ""))
        last = bisect_right(order, (namespace + "\0", ""))
        return [objects[key] for key in order[first:last]]

    def count(self, storage: str) -> int:
        return len(self._caches.of(storage).objects)

    def touched(self, storage: str) -> int:
        """The revision of the storage's last change: a key for anything derived from its objects."""
        return self._caches.of(storage).touched

    def storages(self) -> list[str]:
        return [name for name, cache in self._caches.all.items() if cache.objects]

    async def page(self, storage: str, *, at: int, namespace: str, start: Key, limit: int) -> list[Entry]:
        """Some objects behind the key `start`, up to `limit` (0: no limit), as they stood at revision `at`.

        Less than `limit` does not mean that there are no more, none does: the disk is read in pieces. Raises `Compacted`.
        """
        if self._is_present(storage, at):
            keys = self._keys_now(storage, namespace, start)
            objects = self._caches.of(storage).objects
            return [objects[key] for key in (keys[:limit] if limit else keys)]
        read = partial(self._database.page, storage, at=at, namespace=namespace, start=start, limit=limit, most=PAGE_BYTES)
        rows = await self._read(at, read)
        objects = self._caches.of(storage).objects
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
        order = self._caches.of(storage).order()
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
        staged = self._commits.heads.get((storage, (namespace, name)))
        return self.get(storage, namespace, name) if staged is None else staged.entry

    def staged(self, storage: str) -> list[Entry]:
        """What will be in a storage once it is durable, and is not yet read."""
        heads = self._commits.heads.items()
        return [head.entry for (place, _), head in heads if place == storage and head.entry is not None]

    async def settled(self, storage: str, namespace: str, name: str) -> None:
        """Returns when what `head` showed is durable; raises what its commit raised."""
        staged = self._commits.heads.get((storage, (namespace, name)))
        if staged is not None:
            await asyncio.shield(staged.future)

    def stage(self, storage: str, obj: Json, *, expect: int) -> asyncio.Future[Entry]:
        return self.stage_all([Write(storage, obj, expect)])[0]

    def stage_all(self, writes: Sequence[Write]) -> list[asyncio.Future[Entry]]:
        """Writes objects of different keys, or none where one cannot be written; await the results for durability.

        `metadata.resourceVersion` is set here. Raises `Stale` at once where the newest version is not the expected one.
        """
        used, events = self.size, []
        for number, write in enumerate(writes, 1):
            meta = write.obj["metadata"]
            key = (intern(meta.get("namespace", "")), meta["name"])
            before = self.head(write.storage, *key)
            if (before.rv if before else 0) != write.expect:
                raise Stale
            rv, data = self._numbered(write.obj, number)
            event = Event("MODIFIED" if before else "ADDED", key, rv, data, before.data if before else None)
            check_size(event, write.obj, used=used, limits=self._limits)
            used += growth(event)
            events.append(event)
        return [self._commits.add(one.storage, event, prev=one.expect) for one, event in zip(writes, events, strict=True)]

    def stage_delete(self, storage: str, obj: Json, *, expect: int) -> asyncio.Future[Entry]:
        """Removes the object; `obj` is its last state, which watchers receive at the revision of the delete."""
        meta = obj["metadata"]
        key = (intern(meta.get("namespace", "")), meta["name"])
        before = self.head(storage, *key)
        if before is None or before.rv != expect:
            raise Stale
        rv, data = self._numbered(obj)
        return self._commits.add(storage, Event("DELETED", key, rv, data, before.data), prev=before.rv)

    def _numbered(self, obj: Json, number: int = 1) -> tuple[int, bytes]:
        rv = self._commits.newest + number
        obj["metadata"]["resourceVersion"] = str(rv)
        return rv, _encode(obj)

    def _publish(self, batch: list[Staged]) -> None:
        woken: dict[str, WatchCache] = {}
        for staged in batch:
            event, storage = staged.event, staged.row.storage
            woken[storage] = self._caches.apply(storage, event)
            if event.before is not None:
                self.history.add(event.rv, len(event.before) + (len(event.data) if event.type == "DELETED" else 0))
            self._commits.done(staged)
            self._tell(storage, event)
            if not staged.future.done():
                staged.future.set_result(Entry(event.key, event.rv, event.data))
        for cache in woken.values():
            cache.wake()
        self._caches.trim()

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
        cache = self._caches.of(storage)
        if after >= cache.floor:
            return cache.after(after)
        read = partial(self._database.changes, storage, after=after, limit=TAKEN, most=TAKEN_BYTES, before=before)
        found = await self._read(after, read)
        # Rows that are on disk but not yet published wait for their turn: nobody sees a change before its writer does.
        return [_event(change) for change in found if change.row.rv <= self.revision]

    async def changed(self, storage: str, after: int, timeout: float) -> None:
        """Returns when the storage has changed above the revision, or after the timeout."""
        cache = self._caches.of(storage)
        if cache.touched > after:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        cache.waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout)
        finally:
            cache.waiters.discard(waiter)

    def wake(self, storage: str = "") -> None:
        """Wakes the watches of a storage, or all of them, change or not."""
        for cache in [self._caches.of(storage)] if storage else self._caches.all.values():
            cache.wake()

    # --- maintenance ---

    async def compact(self, upto: int, *, steps: int = sys.maxsize) -> None:
        """Forgets history at and below a revision, or as much of it as goes in so many steps."""
        await self._compaction.compact(upto, steps=steps)

    async def shorten(self) -> None:
        """Drops some of the oldest history where there is more than its bound."""
        await self._compaction.shorten()

    async def tidy(self, *, pages: int, slack: int) -> bool:
        """Gives one slice of free space back to the file system, or empties the journal when the slices are done. Whether
        there is more to do."""
        free = await self._work(self._database.free_pages)
        if free > slack:
            await self._work(partial(self._database.vacuum, min(pages, free - slack)))
            return True
        if not self._commits.running and self._database.journal_bytes() > JOURNAL_LEFT:
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
            self._commits.broken = str(error) or type(error).__name__
        else:
            self._commits.broken = ""

    async def _work(self, work: Callable[[], T]) -> T:
        """Something on the writer's thread, after what is there already."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    def forget(self, storage: str) -> None:
        """Drops the memory of a storage whose kind is gone and that nothing is left in. Its watches are woken."""
        cache = self._caches.all.get(storage)
        if cache is None:
            return
        if not cache.objects and not any(place == storage for place, _ in self._commits.heads):
            self._caches.drop(storage)
        cache.wake()

    async def close(self) -> None:
        await self._commits.drained()
        self._writer.shutdown()
        self._reader.shutdown()
        self._database.close()


def _event(change: Change) -> Event:
    row = change.row
    kind = "DELETED" if row.deleted else "MODIFIED" if row.prev else "ADDED"
    return Event(kind, (row.namespace, row.name), row.rv, row.data, change.before)
