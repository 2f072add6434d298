"""Events go one hour after they were last written, as on kube-apiserver, where each write puts them under a new lease of etcd.

When an object was written is known for as long as the process lives. For the time after a restart, the database keeps now and
then which revision it had when: an Event is as old as the first such mark at or above its revision.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left

from ullage.clock import Clock
from ullage.standalone.apiserver.storage.entries import Event, Key
from ullage.standalone.apiserver.storage.store import Store

STORAGE = "events"  # of both groups
MARK_SECONDS = 60.0
AT_ONCE = 100  # deletions in one turn, so that writes of others come between


class EventExpiry:
    def __init__(self, store: Store, clock: Clock, *, seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._written: dict[Key, float] = {}  # the earliest first
        self._marked = (0.0, 0)  # the newest mark: when, and which revision
        now = self._now()
        marks = store.marks()
        for entry in sorted(store.items(STORAGE), key=lambda entry: entry.rv):
            after = bisect_left(marks, entry.rv, key=lambda mark: mark[0])
            self._written[entry.key] = min(float(marks[after][1]), now) if after < len(marks) else now
        store.listeners.append(self._on_event)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _on_event(self, storage: str, event: Event) -> None:
        if storage != STORAGE:
            return
        self._written.pop(event.key, None)
        if event.type != "DELETED":
            self._written[event.key] = self._now()  # and behind all others

    async def turn(self) -> None:
        """Marks the time, and deletes what is due."""
        now = self._now()
        if now - self._marked[0] >= MARK_SECONDS and self._store.revision > self._marked[1]:
            self._marked = now, self._store.revision
            await self._store.mark(int(now), keep=int(now - self._seconds))
        while await self._delete(self._due(now - self._seconds)):
            pass

    def _due(self, before: float) -> list[Key]:
        due: list[Key] = []
        for key, written in self._written.items():
            if written > before or len(due) == AT_ONCE:
                break
            due.append(key)
        return due

    async def _delete(self, keys: list[Key]) -> bool:
        """As a lease does: no admission is asked, and finalizers hold nothing. Whether there was something to delete."""
        going = []
        for key in keys:
            entry = self._store.head(STORAGE, *key)
            if entry is not None and entry is self._store.get(STORAGE, *key):  # else it is being written: its hour begins anew
                going.append(self._store.stage_delete(STORAGE, entry.obj(), expect=entry.rv))
        await asyncio.gather(*going)
        return bool(going)
