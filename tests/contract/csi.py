"""A CSI driver behind its socket, for the contract."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.contract.systems import Files, System, read_files, write_files, write_sparse
from tests.csi_driver.calls import make_volume
from tests.csi_driver.running import NAME, RunningDriver
from ullage.snapshots.backends.base import Backend, Restored, VolumeHandle
from ullage.snapshots.backends.csi.backend import CsiBackend

SIZE = 16 * 1024 * 1024


class Driver:
    """Its handles are any text: only the driver knows which it has given."""

    foreign: tuple[str, ...] = ()
    unknown = "no-such-snapshot"
    unknown_volume = "no-such-volume"
    keeps_names = False

    def __init__(self, driver: RunningDriver, backend: Backend) -> None:
        self.backend = backend
        self._driver = driver

    async def volume(self, name: str, files: Files) -> VolumeHandle:
        volume = VolumeHandle(handle=await asyncio.to_thread(make_volume, self._driver.path, name, size=SIZE))
        await self.write(volume, files)
        return volume

    async def write(self, volume: VolumeHandle, files: Files) -> None:
        await asyncio.to_thread(write_files, self._driver.data(volume.handle), files)

    async def write_sparse(self, volume: VolumeHandle, *, size: int, data: int) -> None:
        await asyncio.to_thread(write_sparse, self._driver.data(volume.handle), size=size, data=data)

    async def read(self, restored: Restored) -> Files:
        return await asyncio.to_thread(read_files, self._driver.data(restored.source["csi"]["volumeHandle"]))

    async def snapshots(self) -> int:
        return len(self._driver.snapshots())

    async def volumes(self) -> int:
        return len(self._driver.volumes())


@asynccontextmanager
async def start(_directory: Path) -> AsyncIterator[System]:
    """In a directory of its own: the one that a test is given has too long a path for a socket."""
    with tempfile.TemporaryDirectory(prefix="csi-") as short:
        driver = RunningDriver(Path(short))
        await asyncio.to_thread(driver.start)
        try:
            async with CsiBackend.at(driver.path, driver=NAME) as backend:
                yield Driver(driver, backend)
        finally:
            await asyncio.to_thread(driver.kill)
