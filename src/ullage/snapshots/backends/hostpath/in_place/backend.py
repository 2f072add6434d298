"""Restores in place of directories, for controllers: `swaps` in threads, long copies in the background."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from ullage.clock import Clock, SystemClock
from ullage.snapshots.backends.base import Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath.copies import PATIENCE, Copies, CopyKey
from ullage.snapshots.backends.hostpath.in_place.swaps import Swaps
from ullage.snapshots.backends.hostpath.paths import HostPathSettings
from ullage.snapshots.backends.hostpath.threads import Workers

_COPIES: Final = 2  # at a time
_LOOKS: Final = 2


class InPlaceBackend(Protocol):
    """A storage system whose volumes can change places with copies of their snapshots. Every call may be repeated."""

    async def prepare(self, restoration: Restoration, volume: VolumeHandle) -> None:
        """Makes a copy of the snapshot beside the volume, under the name of the restoration. InProgress: ask again."""

    async def swap(self, name: str, volume: VolumeHandle) -> None:
        """The volume is the copy from now on; what it was before is kept. Impossible: it is what it was, and that is known;
        whatever else is in the way is Uncertain or NotNow, and what is kept must stay."""

    async def swap_back(self, name: str, volume: VolumeHandle) -> None:
        """The volume is what it was before; the copy, with what was written to it, is kept. Impossible: what it was is not
        there any more, and that is known."""

    async def is_swapped(self, name: str, volume: VolumeHandle) -> bool:
        """Whether the volume is the copy now. Never a guess: Uncertain or NotNow where nothing tells."""

    async def discard(self, name: str) -> None:
        """Removes what is kept under this name. The volume stays what it is."""

    async def kept(self) -> list[str]:
        """The names of all that is kept."""


class HostPathInPlace:
    """Directories of this machine."""

    def __init__(self, settings: HostPathSettings, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        self._swaps = Swaps(settings, clock=clock or SystemClock())
        self._copies = Copies(_COPIES, name="hostpath-in-place", patience=patience)
        self._looks = Workers(_LOOKS, name="hostpath-swap")

    async def prepare(self, restoration: Restoration, volume: VolumeHandle) -> None:
        key = CopyKey(restoration.name, restoration.snapshot)
        await self._copies.run(key, partial(self._swaps.prepare, restoration, volume), owner=restoration.owner)

    async def swap(self, name: str, volume: VolumeHandle) -> None:
        await self._looks.run(partial(self._swaps.swap, name, volume))

    async def swap_back(self, name: str, volume: VolumeHandle) -> None:
        await self._looks.run(partial(self._swaps.swap_back, name, volume))

    async def is_swapped(self, name: str, volume: VolumeHandle) -> bool:
        return await self._looks.run(partial(self._swaps.is_swapped, name, volume))

    async def discard(self, name: str) -> None:
        await self._copies.cancel(name)
        await self._looks.run(partial(self._swaps.discard, name))

    async def kept(self) -> list[str]:
        return await self._looks.run(self._swaps.kept)

    async def close(self) -> None:
        """Calls off every copy that is being made. The next process goes on with them."""
        await self._copies.close()
