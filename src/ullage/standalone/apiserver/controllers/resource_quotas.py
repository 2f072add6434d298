"""What quotas say is used, when something that they count has gone, has ended, or was there before them.

What comes is counted by admission (`admission/quotas`); only what goes, and quotas that are new or changed, is left to this.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ullage.standalone.apiserver.admission.quotas.enforce import QUOTAS, Quotas
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue
from ullage.standalone.apiserver.storage.entries import Event, Key
from ullage.standalone.apiserver.storage.store import Store

# Counting for a quota takes as long as its namespace has objects: what goes in the same moment is counted together.
PAUSE: Final = 0.05
# Some things nobody tells of: a pod that does not end counts until a certain moment, and a status may be written by hand.
AGAIN: Final = 300.0


class ResourceQuotaController:
    def __init__(self, store: Store, quotas: Quotas) -> None:
        self._store = store
        self._quotas = quotas
        self._again: dict[Key, asyncio.TimerHandle] = {}
        self.queue: WorkQueue[Key] = WorkQueue(self._process, name="resourcequota-controller")
        store.listeners.append(self._on_event)
        for entry in store.items(QUOTAS):
            self.queue.add(entry.key)

    def _on_event(self, storage: str, event: Event) -> None:
        for key in self._quotas.unsettled(storage, event):
            self.queue.add_later(key, PAUSE)

    async def _process(self, key: Key) -> None:
        if written := self._quotas.settle(key):
            await written
        if timer := self._again.pop(key, None):
            timer.cancel()
        if self._store.head(QUOTAS, *key) is not None:
            self._again[key] = asyncio.get_running_loop().call_later(AGAIN, self.queue.add, key)
