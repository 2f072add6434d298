"""Volumes that are being filled from snapshots of others, beside the reconcilers: each is a task, since data takes its time.

Nothing of it is kept: the host sees a copy through even if this process dies, and has it wholly or not at all. So the next
process looks whether the snapshot is there, and asks again if it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from ullage.engines.chain import clone_base
from ullage.engines.client.errors import Reason, error
from ullage.engines.client.host import HostClient
from ullage.engines.handles import SnapshotHandle
from ullage.errors import Impossible
from ullage.kube.cache.indexer import Key


@dataclass(slots=True)
class _Clone:
    uid: str
    task: asyncio.Task[None]


class Clones:
    def __init__(self, host: HostClient) -> None:
        self._host = host
        self._clones: dict[Key, _Clone] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for key in list(self._clones):
            self.end(key)

    def is_done(self, key: Key, *, uid: str, source: SnapshotHandle, over: Callable[[Key], None]) -> bool:
        """Begins it if it has not begun. Whether it is done; raises why it failed, and is forgotten then. `over` is called
        when there is something to be told."""
        found = self._clones.get(key)
        if found is not None and found.uid != uid:
            self.end(key)
            found = None
        if found is None:
            task = asyncio.create_task(self._fill(key.name, source), name=f"clone {key}")
            task.add_done_callback(lambda _: over(key))
            self._clones[key] = _Clone(uid, task)
            return False
        if not found.task.done():
            return False
        del self._clones[key]
        found.task.result()
        return True

    def end(self, key: Key) -> None:
        """The volume is going, or what came of it is written down."""
        found = self._clones.pop(key, None)
        if found is not None:
            found.task.cancel()
            found.task.add_done_callback(_heard)

    async def _fill(self, name: str, source: SnapshotHandle) -> None:
        """Without a frontend: nobody is to write before all the data is there. Once it is, others decide whether the volume
        is attached; one that failed is not."""
        await self._host.attach(name, frontend=False)
        try:
            await self._copy(name, source)
        except Impossible:
            await self._host.detach(name)
            raise

    async def _copy(self, name: str, source: SnapshotHandle) -> None:
        origin, target = self._host.engine(source.volume), self._host.engine(name)
        made = {clone_base(name), source.snapshot}  # the second: by an engine of before
        if made.isdisjoint((await target.snapshots()).entries):
            entry = (await origin.snapshots()).entries.get(source.snapshot)
            if entry is None or entry.removed:
                state = "does not exist" if entry is None else "is marked as removed"
                raise error(Reason.NO_SNAPSHOT, f"snapshot {source.snapshot} of volume {source.volume} {state}")
            await target.clone(source.snapshot, source=origin)


def _heard(task: asyncio.Task[None]) -> None:
    """Of a task that nobody waits for, the error counts as looked at."""
    if not task.cancelled():
        task.exception()
