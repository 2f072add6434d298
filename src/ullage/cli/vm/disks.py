"""Where the data of a VM's volumes is, on the machine of `ullage up`, and how random blocks get there.

A volume of Longhorn is written through its engine, as `ullage volume write` does it. A directory has its disk in a file, as
KubeVirt has it: `disk.img`. What else is in the directory was put there by others, so nothing in it is followed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.cli.common.session import Missing, readable
from ullage.cli.volume import data as volume_data
from ullage.cli.volume.data import AttachedVolume
from ullage.cli.volume.reading import FoundVolume, Named, NoEngine, volume_behind
from ullage.clock import Clock
from ullage.engines.client.host import PIECE
from ullage.engines.handles import DRIVER, engine_volume
from ullage.errors import Retryable
from ullage.kube.builtin import core
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden
from ullage.quantity import Quantity
from ullage.snapshots.restored_volume import PROVISIONED_BY
from ullage.snapshots.settings import HOSTPATH
from ullage.vms.api.machines import MachineVolume

FILE: Final = "disk.img"
SOCKET: Final = "unix://"
SYNC_EVERY: Final = 64  # pieces


class OpenDisk(ABC):
    """A disk that can be written to now."""

    @property
    @abstractmethod
    def lies_in(self) -> Path:
        """A directory of the file system that its data is on."""

    @abstractmethod
    async def write(self, data: bytes, *, offset: int, sync: bool) -> None:
        """One piece. With `sync` it survives a power cut, and all that was written before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A volume of a VM that has a claim. One of `engine` and `directory` is there."""

    volume: str
    claim: str
    size: int
    engine: FoundVolume | None = None
    directory: Path | None = None

    @asynccontextmanager
    async def opened(self, client: Client, *, ticket: str, clock: Clock) -> AsyncIterator[OpenDisk]:
        if self.engine is not None:
            async with volume_data.attached(client, self.engine, ticket=ticket, clock=clock) as held:
                yield _Engine(held)
        elif self.directory is not None:
            file = await asyncio.to_thread(_open, self.directory, self.size)
            try:
                yield _File(self.directory, file)
            finally:
                os.close(file)


async def disks_of(client: Client, namespace: str, volumes: Sequence[MachineVolume]) -> list[Disk]:
    """All are found before the first is touched."""
    return [await _disk(client, namespace, one) for one in volumes]


async def _disk(client: Client, namespace: str, volume: MachineVolume) -> Disk:
    claim = await client.find(core.CLAIMS, volume.claim, namespace)
    if claim is None:
        raise Missing(f"volume {volume.name}: claim {namespace}/{volume.claim} does not exist")
    name = claim.spec.volume_name
    if not name:
        raise NoEngine(f"volume {volume.name}: claim {namespace}/{volume.claim} has no volume yet")
    persistent = await readable(client.find(core.PERSISTENT_VOLUMES, name))
    # The provisioner gives both the same name.
    handle = name if isinstance(persistent, Forbidden) else engine_volume(persistent) if persistent is not None else ""
    if isinstance(persistent, Forbidden) or handle:
        found = await volume_behind(client, Named(namespace, volume.claim), handle)
        return Disk(volume=volume.name, claim=volume.claim, size=found.size, engine=found)
    source = persistent.spec.host_path if persistent is not None else None
    if persistent is None or source is None or persistent.metadata.annotations.get(PROVISIONED_BY) != HOSTPATH:
        raise NoEngine(
            f"volume {volume.name}: claim {namespace}/{volume.claim} has volume {name}, which is neither {DRIVER}'s nor "
            f"{HOSTPATH}'s; only those of `ullage up` can be filled from here"
        )
    size = Quantity.parse(str(persistent.spec.capacity.get("storage", "0"))).value()
    return Disk(volume=volume.name, claim=volume.claim, size=size, directory=Path(source.path))


# --- the two sorts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Engine(OpenDisk):
    held: AttachedVolume

    @property
    def lies_in(self) -> Path:
        return Path(self.held.host.address.removeprefix(SOCKET)).parent

    async def write(self, data: bytes, *, offset: int, sync: bool) -> None:
        await self.held.write_piece(data, offset=offset, sync=sync)


@dataclass(frozen=True, slots=True)
class _File(OpenDisk):
    directory: Path
    file: int

    @property
    def lies_in(self) -> Path:
        return self.directory

    async def write(self, data: bytes, *, offset: int, sync: bool) -> None:
        await asyncio.to_thread(self._write, data, offset, sync=sync)

    def _write(self, data: bytes, offset: int, *, sync: bool) -> None:
        try:
            left = memoryview(data)
            while left:
                done = os.pwrite(self.file, left, offset)
                offset, left = offset + done, left[done:]
            if sync:
                os.fsync(self.file)
        except OSError as error:
            raise Retryable(f"{self.directory / FILE}: {error.strerror}") from error


def _open(directory: Path, size: int) -> int:
    """The file of a disk, made where it is missing and as large as its volume."""
    try:
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NoEngine(f"{directory} is not on this machine; run this where `ullage up` runs") from None
    except OSError as error:
        raise NoEngine(f"{directory}: {error.strerror}") from error
    file = -1
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        file = os.open(FILE, flags, 0o600, dir_fd=parent)
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise NoEngine(f"{directory / FILE}: there is something that is no file")
        if found.st_size < size:
            os.ftruncate(file, size)
        return file
    except (OSError, NoEngine) as error:
        if file >= 0:
            os.close(file)
        if isinstance(error, NoEngine):
            raise
        raise NoEngine(f"{directory / FILE}: {error.strerror}; nothing was written to it") from error
    finally:
        os.close(parent)


__all__ = ["FILE", "PIECE", "SYNC_EVERY", "Disk", "OpenDisk", "disks_of"]
