"""The storage systems that the contract is tried on: what a test has to be able to do around a backend.

A backend joins by a `System` of its own and an entry in `conftest.SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from ullage.snapshots.backends.base import Backend, Restored, VolumeHandle

Files = Mapping[str, bytes]  # by path


class System(Protocol):
    """A storage system with a backend, and a way around it."""

    backend: Backend
    # Handles of snapshots that this system cannot have given, each of which it must refuse. None where any text may be one.
    foreign: tuple[str, ...]
    # A handle of a snapshot that it could have given, but did not.
    unknown: str
    # A handle of a restored volume that it could have given, but did not.
    unknown_volume: str
    # Whether the name of the latest snapshot of a volume stays taken after it was deleted, until another one is taken.
    keeps_names: bool

    async def volume(self, name: str, files: Files) -> VolumeHandle:
        """A new volume with these files, and room for 16Mi."""

    async def write(self, volume: VolumeHandle, files: Files) -> None:
        """Writes files to a volume, over those that are there."""

    async def write_sparse(self, volume: VolumeHandle, *, size: int, data: int) -> None:
        """Writes something that is `size` bytes long, of which the last `data` bytes are written and the rest are holes."""

    async def read(self, restored: Restored) -> Files:
        """All files of a restored volume."""

    async def snapshots(self) -> int:
        """How many snapshots the storage system has, finished or not, asked behind the backend's back."""

    async def volumes(self) -> int:
        """How many volumes it has, those of `volume` and restored ones, asked likewise."""


class Start(Protocol):
    """Starts a storage system that keeps its things in a directory; stops it at the end."""

    def __call__(self, directory: Path, /) -> AbstractAsyncContextManager[System]: ...


def write_files(top: Path, files: Files) -> None:
    for path, content in files.items():
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def write_sparse(top: Path, *, size: int, data: int) -> None:
    with (top / "sparse").open("wb") as file:
        file.seek(size - data)
        file.write(b"x" * data)


def read_files(top: Path) -> Files:
    return {str(file.relative_to(top)): file.read_bytes() for file in top.rglob("*") if file.is_file()}
