"""Directories that are there wholly or not at all, one for each name, and one caller at a time for each.

    .locks/NAME       a lock, while somebody works on the name; the kernel drops it with the process
    .staging-NAME     in the making; renamed to NAME when everything is on the disk
    NAME              whole
    .deleting-NAME    was whole; removed piece by piece
    .scratch-NAME     what whoever makes it cannot keep in memory, for a moment
    .notes-NAME       what is in the one in the making by now

A process may be killed at any moment: what it leaves behind lies under one of the names with a dot. The next call for the same
name goes on with what is in the making, if it is of the same source and has notes, or removes it; and so does `sweep`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ullage.clock import Clock
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.files.trees import DIRECTORY, closing, open_up, remove_tree
from ullage.snapshots.backends.hostpath import copy_notes
from ullage.snapshots.backends.hostpath.errors import printable
from ullage.snapshots.backends.hostpath.paths import check_name, is_name, parts_of
from ullage.snapshots.backends.hostpath.threads import Stop, Stopped

LOCKS: Final = ".locks"
STAGING: Final = ".staging-"
DELETING: Final = ".deleting-"
SCRATCH: Final = ".scratch-"
NOTES: Final = ".notes-"
LOCK_SECONDS: Final = 30.0  # seconds to wait for another caller
_POLL: Final = 0.05
_UNFINISHED: Final = (STAGING, DELETING, SCRATCH, NOTES)


class DirectoryStore:
    """One root directory, whose children are ours."""

    def __init__(self, root: Path, *, clock: Clock) -> None:
        self.root = root
        self._clock = clock

    def path(self, name: str) -> Path:
        return self.root / name

    def scratch(self, name: str) -> Path:
        """For a file that nobody else needs while a name is worked on. Who makes it removes it."""
        return self.root / f"{SCRATCH}{name}"

    def notes(self, name: str) -> Path:
        """Of what is in the making."""
        return self.root / f"{NOTES}{name}"

    def name_of(self, handle: str, *, what: str) -> str:
        """The name in a handle. Raises Impossible for one that we cannot have given."""
        parts = parts_of(handle)
        if parts[:-1] != self.root.parts[1:]:
            raise Impossible(f"{what} {printable(handle)}: a directory in {self.root} is allowed")
        return check_name(parts[-1])

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of the root."""
        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise NotNow(f"{self.root}: {error.strerror}; it has to be there, or its file system mounted") from error
        with closing(root):
            yield root

    def names(self) -> list[str]:
        """Of what is whole, in order."""
        with os.scandir(self.root) as entries:
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir(follow_symlinks=False))

    @contextmanager
    def entry(self, root: int, name: str) -> Iterator[int | None]:
        """A descriptor of what is whole; None where there is nothing."""
        try:
            directory = os.open(name, DIRECTORY, dir_fd=root)
        except FileNotFoundError:
            yield None
            return
        except NotADirectoryError as error:
            raise Impossible(f"{self.path(name)}: is not a directory, and so not ours") from error
        with closing(directory):
            yield directory

    @contextmanager
    def staged(self, root: int, name: str, *, of: str) -> Iterator[int]:
        """A directory in the making, with its notes: a new one, or one whose making was interrupted, if it was `of` the same.

        The block ends with `publish`. It may be gone on with where it is called off, and is removed where it fails.
        """
        staging = STAGING + name
        try:
            if not self._goes_on(root, name, of=of):
                self.clear(root, name)
                os.mkdir(staging, 0o700, dir_fd=root)
                copy_notes.begin(self.notes(name), copy_notes.heading(of, os.stat(staging, dir_fd=root)))
            with closing(os.open(staging, DIRECTORY, dir_fd=root)) as directory:
                yield directory
        except Stopped:
            raise
        except BaseException:
            with suppress(OSError):  # the next call for this name tries again
                self.clear(root, name)
            raise
        with suppress(FileNotFoundError):
            os.unlink(NOTES + name, dir_fd=root)

    def _goes_on(self, root: int, name: str, *, of: str) -> bool:
        staging = STAGING + name
        try:
            line = copy_notes.heading(of, os.stat(staging, dir_fd=root, follow_symlinks=False))
            if not copy_notes.have(self.notes(name), line):
                return False
            open_up(root, staging)
        except FileNotFoundError:
            return False
        return True

    def publish(self, root: int, name: str) -> None:
        """From now on it is whole. All that is in it is on the disk already."""
        os.rename(STAGING + name, name, src_dir_fd=root, dst_dir_fd=root)
        os.fsync(root)

    def retire(self, root: int, name: str) -> None:
        """Removes what is whole. It stops being that first, at once."""
        with self.entry(root, name) as directory:
            if directory is not None:
                os.rename(name, DELETING + name, src_dir_fd=root, dst_dir_fd=root)
                os.fsync(root)
        remove_tree(root, DELETING + name)

    def clear(self, root: int, name: str) -> None:
        """Removes what callers who were killed have left; notes first, so that nobody goes on with what is half removed."""
        for file in (NOTES + name, SCRATCH + name):
            with suppress(FileNotFoundError):
                os.unlink(file, dir_fd=root)
        remove_tree(root, STAGING + name)
        remove_tree(root, DELETING + name)

    def sweep(self, root: int, *, stop: Stop, keep: Callable[[str], bool] = lambda name: False) -> None:
        """Removes what is left of anything that nobody works on now, except what is to be kept."""
        unfinished = [name for name in os.listdir(self.root) if name.startswith(_UNFINISHED)]
        left = {name.removeprefix(prefix) for name in unfinished for prefix in _UNFINISHED if name.startswith(prefix)}
        with suppress(FileNotFoundError):
            left.update(os.listdir(self.root / LOCKS))
        for name in sorted(filter(is_name, left)):
            stop.check()
            lock = self._try(root, name, operation=fcntl.LOCK_EX)
            if lock is not None:
                try:
                    if not keep(name):
                        self.clear(root, name)
                finally:
                    self._release(root, name, lock)

    def is_interrupted(self, name: str) -> bool:
        """Whether its making may be gone on with."""
        return (self.root / (STAGING + name)).is_dir() and copy_notes.are_of_this_start(self.notes(name))

    @contextmanager
    def locked(self, root: int, name: str, *, stop: Stop, shared: bool = False) -> Iterator[None]:
        """Keeps others out: all of them, or only those who want to have it alone. Uncertain where it takes too long."""
        operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        deadline = self._clock.monotonic() + LOCK_SECONDS
        while (lock := self._try(root, name, operation=operation)) is None:
            if self._clock.monotonic() > deadline:
                raise Uncertain(f"{self.path(name)}: another call has been at work on it for {LOCK_SECONDS:.0f} s; ask again")
            stop.pause(_POLL)
        try:
            yield
        finally:
            self._release(root, name, lock)

    def _try(self, root: int, name: str, *, operation: int) -> int | None:
        with suppress(FileExistsError):
            os.mkdir(LOCKS, 0o700, dir_fd=root)
        file = os.open(f"{LOCKS}/{name}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=root)
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
            if _is_at(file, root, name):
                return file
        except BlockingIOError:
            pass
        os.close(file)
        return None

    def _release(self, root: int, name: str, lock: int) -> None:
        """The last one takes the file away. Only who has it alone may: others could be waiting for a file that nobody finds."""
        with closing(lock), suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, root, name):
                os.unlink(f"{LOCKS}/{name}", dir_fd=root)


def copied_from(handle: str, source: int) -> str:
    """What is copied: a handle, and the very directory that it stands for now."""
    found = os.fstat(source)
    return f"{found.st_dev}:{found.st_ino} {handle}"


def _is_at(lock: int, root: int, name: str) -> bool:
    """Whether a lock is still the one that others would find."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(f"{LOCKS}/{name}", dir_fd=root, follow_symlinks=False))
    except FileNotFoundError:
        return False
