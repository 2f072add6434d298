"""New volumes with a snapshot's data.

A volume is its data and nothing else, so what we know of it lies beside it: `.restored/NAME` says which snapshot it came from
and which directory it is, by number. A directory that merely has the same name was made by somebody else, and stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from ullage.clock import Clock
from ullage.errors import Impossible
from ullage.files.trees import DIRECTORY, closing, descend
from ullage.snapshots.backends.base import Restoration, Restored
from ullage.snapshots.backends.hostpath import errors
from ullage.snapshots.backends.hostpath.errors import bytes_text, printable
from ullage.snapshots.backends.hostpath.manifest import Manifest
from ullage.snapshots.backends.hostpath.paths import HostPathSettings, check_name
from ullage.snapshots.backends.hostpath.snapshots import DATA, Snapshots
from ullage.snapshots.backends.hostpath.store import DirectoryStore, copied_from
from ullage.snapshots.backends.hostpath.threads import Stop
from ullage.snapshots.backends.hostpath.tree_copy import copy_tree

MARKS: Final = ".restored"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a restored volume."""

    snapshot: str  # the handle
    device: int  # as it was then: the file system may have another one since, so it is not compared
    inode: int

    def is_of(self, directory: int, *, root: int) -> bool:
        """Whether it is about this directory, which must be on the file system of its root: the mark is there too."""
        found = os.fstat(directory)
        return self.inode == found.st_ino and found.st_dev == os.fstat(root).st_dev


class Restores:
    """Makes and removes them. Every call blocks, and belongs in a thread."""

    def __init__(self, settings: HostPathSettings, snapshots: Snapshots, *, clock: Clock) -> None:
        self._settings = settings
        self._snapshots = snapshots
        self._clock = clock
        self.store = DirectoryStore(settings.restored, clock=clock)

    def restore(self, restoration: Restoration, stop: Stop) -> Restored:
        name = check_name(restoration.name)
        if restoration.block:
            raise Impossible(f"volume {name}: volumeMode Block is not possible here, Filesystem is")
        if restoration.node not in ("", self._settings.node):
            raise Impossible(
                f"volume {name}: the pod that uses it is scheduled to node {restoration.node}, and the snapshot's files are on "
                f"{self._settings.node}; have the pod run there"
            )
        with self.store.opened() as root, self._making(restoration, stop), self.store.locked(root, name, stop=stop):
            if self._is_there(root, restoration):
                self.store.clear(root, name)
            else:
                self._fill(root, restoration, stop)
        path = str(self.store.path(name))
        source = {"hostPath": {"path": path, "type": "Directory"}}
        return Restored(handle=path, size=restoration.size, source=source, node=self._settings.node)

    def discard(self, handle: str, stop: Stop) -> None:
        name = self.store.name_of(handle, what="restored volume")
        try:
            with self.store.opened() as root, self.store.locked(root, name, stop=stop):
                self._discard(root, name)
        except OSError as error:
            raise errors.remove_error(error, what=f"volume {name}") from error

    def _discard(self, root: int, name: str) -> None:
        self.store.clear(root, name)
        mark = read_mark(root, name)
        with self.store.entry(root, name) as directory:
            if directory is not None and (mark is None or not mark.is_of(directory, root=root)):
                raise Impossible(f"volume {self.store.path(name)}: was not made from a snapshot here, and is left alone")
        self.store.retire(root, name)
        for mark_file in (name, f".{name}"):
            with suppress(FileNotFoundError):
                os.unlink(f"{MARKS}/{mark_file}", dir_fd=root)

    def _is_there(self, root: int, restoration: Restoration) -> bool:
        with self.store.entry(root, restoration.name) as directory:
            if directory is None:
                return False
            mark = read_mark(root, restoration.name)
            path = self.store.path(restoration.name)
            if mark is None or not mark.is_of(directory, root=root):
                raise Impossible(f"volume {path}: is there already, and was not made from a snapshot here")
            if mark.snapshot != restoration.snapshot:
                raise Impossible(
                    f"volume {path}: is there already, made from {mark.snapshot}, not {printable(restoration.snapshot)}"
                )
            return True

    def _fill(self, root: int, restoration: Restoration, stop: Stop) -> None:
        snapshots = self._snapshots.store
        name = snapshots.name_of(restoration.snapshot, what="snapshot")
        # Shared: others may restore it too, but it cannot be deleted meanwhile.
        with snapshots.opened() as theirs, snapshots.locked(theirs, name, stop=stop, shared=True):
            manifest = self._snapshots.read(theirs, name)
            if manifest is None:
                raise Impossible(f"volume {restoration.name}: there is no snapshot {printable(restoration.snapshot)}")
            _check_size(restoration, manifest)
            with (
                closing(descend(theirs, (name, DATA))) as source,
                self.store.staged(root, restoration.name, of=copied_from(restoration.snapshot, source)) as target,
            ):
                scratch, notes = self.store.scratch(restoration.name), self.store.notes(restoration.name)
                copy_tree(source, target, clock=self._clock, stop=stop, scratch=scratch, notes=notes)
                made = os.fstat(target)
                write_mark(root, restoration.name, Mark(snapshot=restoration.snapshot, device=made.st_dev, inode=made.st_ino))
                self.store.publish(root, restoration.name)

    @contextmanager
    def _making(self, restoration: Restoration, stop: Stop) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            needed = None
            if error.errno in errors.FULL and (found := self._snapshots.find(restoration.snapshot, stop)):
                needed = found[1].allocated
            what = f"volume {restoration.name}"
            raise errors.copy_error(error, what=what, place=self._settings.restored, needed=needed) from error


def _check_size(restoration: Restoration, manifest: Manifest) -> None:
    if restoration.size < manifest.allocated:
        asked, needed = bytes_text(restoration.size), bytes_text(manifest.allocated)
        raise Impossible(f"volume {restoration.name}: {asked} asked for, snapshot {manifest.name} needs {needed}")


def read_mark(root: int, name: str) -> Mark | None:
    try:
        with os.fdopen(os.open(f"{MARKS}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root), "rb") as file:
            return msgspec.json.decode(file.read(), type=Mark)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_mark(root: int, name: str, mark: Mark) -> None:
    """Under another name first: half a mark would make the volume a stranger."""
    with suppress(FileExistsError):
        os.mkdir(MARKS, 0o700, dir_fd=root)
        os.fsync(root)
    with closing(os.open(MARKS, DIRECTORY, dir_fd=root)) as marks:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(f".{name}", flags, 0o600, dir_fd=marks), "wb") as file:
            file.write(msgspec.json.encode(mark))
            file.flush()
            os.fsync(file.fileno())
        os.rename(f".{name}", name, src_dir_fd=marks, dst_dir_fd=marks)
        os.fsync(marks)
