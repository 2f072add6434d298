"""A directory of volumes. One is there wholly or not at all: it is made, and taken away, under another name.

.new-NAME    in the making; renamed to NAME when all of it is on the disk
NAME         a volume
.old-NAME    was one; removed file by file
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from ullage.engines.chain import HEAD
from ullage.engines.local.store import names
from ullage.engines.local.store.directory import VolumeDirectory
from ullage.engines.local.store.errors import NotFound, Refused, translated
from ullage.engines.local.store.files import DiskFiles, Files, check_holes
from ullage.engines.local.store.record import MOST_LAYERS, Record
from ullage.engines.local.store.state import LockedState
from ullage.engines.local.store.volume import StoredVolume, check_size

NEW: Final = ".new-"
OLD: Final = ".old-"


class Store:
    """All volumes of one process."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._volumes: dict[str, StoredVolume] = {}
        self._states: dict[str, LockedState] = {}
        with translated("volumes"):
            for name in files.names(""):
                if name.startswith((NEW, OLD)):
                    self._discard(name)
            check_holes(files)

    @classmethod
    def open(cls, root: Path) -> Store:
        """The directory is made where it is missing. Unavailable where another process has it."""
        with translated(str(root)):
            files = DiskFiles(root)
        try:
            return cls(files)
        except BaseException:
            files.close()
            raise

    def close(self) -> None:
        self._files.close()

    def names(self) -> list[str]:
        with translated("volumes"):
            return [name for name in self._files.names("") if names.is_volume(name)]

    def create(
        self, name: str, *, size: int, created: str = "", max_count: int = MOST_LAYERS, max_size: int = 0
    ) -> StoredVolume:
        """An empty volume of this size, in bytes. One that is there already with that size is as good as made."""
        names.check_volume(name)
        check_size(size)
        record = Record(size=size, created=created, maxCount=max_count, maxSize=max_size)
        with self._lock, translated(f"volume {name}"):
            if name not in self._files.names(""):
                self._make(name, record)
            volume = self._open(name)
        present = volume.view().size
        if present != size:
            raise Refused(f"volume {name} is already existing with {present} bytes, not {size}")
        return volume

    def volume(self, name: str) -> StoredVolume:
        """One that is there; it is read from the disk at its first use."""
        names.check_volume(name)
        with self._lock, translated(f"volume {name}"):
            return self._open(name)

    def delete(self, name: str) -> None:
        """With all its snapshots, whatever state they are in. A volume that is not there is as good as deleted."""
        names.check_volume(name)
        with self._lock, translated(f"volume {name}"):
            try:
                self._open(name)
            except NotFound:
                return
            with self._states[name].closing():
                self._files.rename(name, OLD + name)
            del self._volumes[name], self._states[name]
            self._files.sync("")
            self._discard(OLD + name)

    def _open(self, name: str) -> StoredVolume:
        if name not in self._volumes:
            if name not in self._files.names(""):
                raise NotFound(f"volume {name} is not there")
            state = self._states[name] = LockedState(VolumeDirectory(self._files, name), name)
            self._volumes[name] = StoredVolume(state)
        return self._volumes[name]

    def _make(self, name: str, record: Record) -> None:
        draft = NEW + name
        if draft in self._files.names(""):  # an attempt before failed, and its remains could not be removed
            self._discard(draft)
        self._files.make_directory(draft)
        try:
            directory = VolumeDirectory(self._files, draft)
            directory.add_layer(record, HEAD)
            directory.commit(record)
        except OSError:
            self._discard(draft)
            raise
        self._files.rename(draft, name)
        self._files.sync("")

    def _discard(self, directory: str) -> None:
        for name in self._files.names(directory):
            self._files.remove(f"{directory}/{name}")
        self._files.remove_directory(directory)
