"""One storage in memory: its objects as JSON, in key order, and its recent events for those who watch."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from sys import intern

from ullage.standalone.apiserver.storage.entries import Entry, Event, Key

RECENT = 2_000  # events a storage keeps in memory for its watches; older ones are read from disk
RECENT_BYTES = 8 << 20  # and not more than this, once it has twice as much: objects may be large
TAKEN = 500  # events a watch takes at once
TAKEN_BYTES = 256 << 10  # and not more than this, or one event: it holds them until its client has taken them


class WatchCache:
    """One storage: its objects, and its recent events."""

    __slots__ = ("_order", "events", "floor", "objects", "touched", "waiters", "weight")

    def __init__(self, floor: int) -> None:
        self.objects: dict[Key, Entry] = {}
        self.events: list[Event] = []
        self.weight = 0  # bytes of `events`
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
            if self._order is not None:
                del self._order[bisect_left(self._order, event.key)]
        else:
            if event.type == "ADDED" and self._order is not None:
                insort(self._order, event.key)
            self.objects[event.key] = Entry(event.key, event.rv, event.data)
        self.touched = event.rv
        self.events.append(event)
        self.weight += event.size
        if len(self.events) > 2 * RECENT or self.weight > 2 * RECENT_BYTES:
            self.trim(RECENT_BYTES)

    def trim(self, most: int) -> None:
        """Forgets the oldest events, so that the others are within so many bytes: all of them if the last is larger."""
        first = len(self.events)
        kept = 0
        while first > 0 and len(self.events) - first < RECENT and kept + self.events[first - 1].size <= most:
            first -= 1
            kept += self.events[first].size
        if first:
            self.floor = self.events[first - 1].rv
            del self.events[:first]
            self.weight = kept

    def after(self, revision: int) -> list[Event]:
        first = bisect_right(self.events, revision, key=attrgetter("rv"))
        last = min(first + TAKEN, len(self.events))
        size = 0
        for index in range(first, last):
            size += self.events[index].size
            if size >= TAKEN_BYTES:
                return self.events[first : index + 1]
        return self.events[first:last]

    def wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()


class WatchCaches:
    """The caches of all storages. The events of all of them together have a bound, too."""

    def __init__(self, revision: int, *, most: int) -> None:
        self._most = most  # bytes of events
        self.all: dict[str, WatchCache] = {}
        self.revision = revision  # of the newest event
        self.recent = 0  # bytes of the events of all

    def of(self, storage: str) -> WatchCache:
        cache = self.all.get(storage)
        if cache is None:
            # A new cache has no memory of what was before this start: its floor sends old watches to the disk.
            cache = self.all[intern(storage)] = WatchCache(self.revision)
        return cache

    def apply(self, storage: str, event: Event) -> WatchCache:
        cache = self.of(storage)
        self.recent -= cache.weight
        cache.apply(event)
        self.recent += cache.weight
        self.revision = event.rv
        return cache

    def drop(self, storage: str) -> None:
        self.recent -= self.all.pop(storage).weight

    def trim(self) -> None:
        """Brings the events within their bound once they are twice as many: caches with few keep theirs, the others share
        what is left."""
        if self.recent <= 2 * self._most:
            return
        left, caches = self._most, sorted(self.all.values(), key=attrgetter("weight"))
        for number, cache in enumerate(caches):
            share = left // (len(caches) - number)
            if cache.weight > share:
                cache.trim(share)
            left -= cache.weight
        self.recent = self._most - left
