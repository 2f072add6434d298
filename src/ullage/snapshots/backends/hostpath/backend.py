"""The backend `ullage.io/hostpath`: volumes are directories of this machine, snapshots are copies of them.

A handle is an absolute path: of a volume its directory, of a snapshot its own directory in the snapshot root. Each is checked
at every call. What a *cut* is here, and how exact it is, is in `tree_copy`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

from ullage.clock import Clock, SystemClock
from ullage.snapshots.backends.base import NO_SECRETS, BackendSnapshot, Creation, Restoration, Restored, Secrets, VolumeHandle
from ullage.snapshots.backends.hostpath.copies import PATIENCE, Copies, CopyKey
from ullage.snapshots.backends.hostpath.paths import HostPathSettings
from ullage.snapshots.backends.hostpath.restores import Restores
from ullage.snapshots.backends.hostpath.sizes import WalkKey, Walks
from ullage.snapshots.backends.hostpath.snapshots import Snapshots
from ullage.snapshots.backends.hostpath.store import DirectoryStore
from ullage.snapshots.backends.hostpath.threads import Stop, Workers
from ullage.snapshots.settings import HOSTPATH

DRIVER: Final = HOSTPATH
_COPIES: Final = 4  # at a time; more would only make the disk seek
_LOOKS: Final = 4  # all other calls at a time: they do not wait behind copies
_WALKS: Final = 2  # looks at all files of a volume at a time
_BATCH: Final = 100  # manifests read at one go


class HostPathBackend:
    """Directories of this machine. Parameters and secrets mean nothing to it."""

    def __init__(self, settings: HostPathSettings, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        clock = clock or SystemClock()
        self._node = settings.node
        self._snapshots = Snapshots(settings, clock=clock)
        self._restores = Restores(settings, self._snapshots, clock=clock)
        self._copies = Copies(_COPIES, name="hostpath-copy", patience=patience)
        self._looks = Workers(_LOOKS, name="hostpath")
        self._walks = Walks(_WALKS, patience=patience, clock=clock)

    @property
    def driver(self) -> str:
        return DRIVER

    @property
    def node(self) -> str:
        return self._node

    async def create(self, creation: Creation) -> BackendSnapshot:
        """Copies the volume. It is ready at once; `cut` is a moment at which the whole tree was what the copy is."""
        key = CopyKey(creation.name, creation.volume.handle)
        return await self._copies.run(key, partial(self._snapshots.create, creation), owner=creation.owner)

    async def undo(self, creation: Creation) -> None:
        await self._copies.cancel(creation.name)
        await self._looks.run(partial(self._snapshots.undo, creation))

    async def delete(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        await self._looks.run(partial(self._snapshots.delete, handle))

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        found = await self._looks.run(partial(self._snapshots.find, handle))
        return found[0] if found else None

    async def list(self, volume: str = "", *, secrets: Secrets = NO_SECRETS) -> AsyncIterator[BackendSnapshot]:
        """In the order of their names. What is deleted meanwhile may or may not be among them."""
        names = await self._looks.run(self._snapshots.names)
        for start in range(0, len(names), _BATCH):
            for shot in await self._looks.run(partial(self._snapshots.read_all, names[start : start + _BATCH], volume)):
                yield shot

    async def restore(self, restoration: Restoration) -> Restored:
        """A new directory. The size is checked and handed back, but a directory has none of its own: nothing enforces it."""
        key = CopyKey(restoration.name, restoration.snapshot)
        return await self._copies.run(key, partial(self._restores.restore, restoration), owner=restoration.owner)

    async def discard(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        await self._copies.cancel(Path(handle).name)
        await self._looks.run(partial(self._restores.discard, handle))

    async def size(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> int | None:
        """The bytes that were allocated when it was made. Blocks that it shares with its volume (reflinks) count fully: they
        become its own as the volume changes."""
        found = await self._looks.run(partial(self._snapshots.find, handle))
        return found[1].allocated if found else None

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        """What a copy would take at most; None for a volume of another node. Looking at very many files takes a while."""
        if not self._snapshots.is_here(volume):
            return None
        return await self._walks.run(WalkKey(owner, volume.handle), partial(self._snapshots.estimate, volume))

    async def close(self) -> None:
        """Calls off every copy that is being made. The next process goes on with them."""
        await self._walks.close()
        await self._copies.close()

    async def sweep(self, *, keep_interrupted: bool = False) -> None:
        """Removes what earlier processes left behind, where nobody works on it. At the start of a controller nobody has asked
        again yet for copies that were interrupted: those that can be gone on with are kept then."""
        await self._looks.run(partial(self._sweep, keep_interrupted))

    def _sweep(self, keep_interrupted: bool, stop: Stop) -> None:
        for store in (self._snapshots.store, self._restores.store):

            def keep(name: str, store: DirectoryStore = store) -> bool:
                return self._copies.under_way(name) or (keep_interrupted and store.is_interrupted(name))

            with store.opened() as root:
                store.sweep(root, stop=stop, keep=keep)
