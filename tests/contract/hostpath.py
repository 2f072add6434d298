"""Directories of this machine, for the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.contract.systems import Files, System, read_files, write_files, write_sparse
from ullage.snapshots.backends.base import Backend, Restored, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend, HostPathSettings

NODE = "here"


class Directories:
    """Volumes in one root, restored ones beside them, snapshots in another."""

    keeps_names = False

    def __init__(self, directory: Path) -> None:
        self._volumes = directory / "volumes"
        self._snapshots = directory / "snapshots"
        self._outside = directory / "outside"
        for made in (self._volumes, self._snapshots, self._outside):
            made.mkdir()
        settings = HostPathSettings(
            volumes=(self._volumes,), snapshots=self._snapshots, restored=self._volumes, node=NODE, single_node=True
        )
        self.backend: Backend = HostPathBackend(settings)
        self.unknown = str(self._snapshots / "snapshot-unknown")
        self.unknown_volume = str(self._volumes / "pvc-unknown")
        self.foreign: tuple[str, ...] = (
            str(self._outside),
            str(self._snapshots),
            str(self._snapshots / "a" / "b"),
            f"{self._snapshots}/../outside",
            str(self._snapshots / ".locks"),
            "snapshot-1",
            "",
        )

    async def volume(self, name: str, files: Files) -> VolumeHandle:
        (self._volumes / name).mkdir()
        volume = VolumeHandle(handle=str(self._volumes / name), node=NODE)
        await self.write(volume, files)
        return volume

    async def write(self, volume: VolumeHandle, files: Files) -> None:
        await asyncio.to_thread(write_files, Path(volume.handle), files)

    async def write_sparse(self, volume: VolumeHandle, *, size: int, data: int) -> None:
        await asyncio.to_thread(write_sparse, Path(volume.handle), size=size, data=data)

    async def read(self, restored: Restored) -> Files:
        return await asyncio.to_thread(read_files, Path(restored.source["hostPath"]["path"]))

    async def snapshots(self) -> int:
        return sum(entry.name != ".locks" for entry in self._snapshots.iterdir())

    async def volumes(self) -> int:
        return sum(entry.name not in (".locks", ".restored") for entry in self._volumes.iterdir())


@asynccontextmanager
async def start(directory: Path) -> AsyncIterator[System]:
    yield Directories(directory)
