"""What quotas say is used, when something that they count has gone, has ended, or was there before them.

What comes is counted by admission (`admission/quotas`); only what goes, and quotas that are new or changed, is left to this.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ullage.standalone.apiserver.admission.quotas.enforce import QUOTAS, Quotas
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue
from ullage.standalone.apiserver.storage.entries import Event
from ullage.standalone.apiserver.storage.store import Store

# Counting a namespace anew takes as long as it has objects: what goes in the same moment is counted together.
PAUSE: Final = 0.05
_CHANGING: Final = frozenset({QUOTAS, "pods", "services", "persistentvolumeclaims"})


class ResourceQuotaController:
    def __init__(self, store: Store, quotas: Quotas) -> None:
        self._quotas = quotas
        self.queue: WorkQueue[str] = WorkQueue(self._process, name="resourcequota-controller")
        store.listeners.append(self._on_event)
        for entry in store.items(QUOTAS):
            self.queue.add(entry.key[0])

    def _on_event(self, storage: str, event: Event) -> None:
        namespace = event.key[0]
        goes = event.type == "DELETED" or (event.type == "MODIFIED" and storage in _CHANGING)
        comes = storage == QUOTAS and event.type == "ADDED"
        if namespace and (goes or comes) and self._quotas.limits(namespace):
            self.queue.add(namespace)

    async def _process(self, namespace: str) -> None:
        await asyncio.sleep(PAUSE)
        await asyncio.gather(*self._quotas.settle(namespace))
