"""Where volumes live: one directory each, below one root that is ours alone.

    <root>/pvc-<uid>            a volume, 0700
    <root>/.world/pvc-<uid>     says that the world made it: written before, removed after, so that a crash leaves nothing
    <root>/.world/lock          one process at a time

Directories without such a note (a restored volume) are never made or removed here. Every function may block: it is called in
a thread.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ullage.errors import BadInput, Retryable, Terminal
from ullage.files.trees import DIRECTORY, closing, remove_tree
from ullage.standalone.world.model import uid_of

logger = logging.getLogger(__name__)

NOTES: Final = ".world"
LOCK: Final = "lock"


class Locked(Retryable):
    """Another process works on these volumes."""


class Directories:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._notes = root / NOTES
        self._lock: int | None = None

    def open(self) -> None:
        """Makes what is missing, and keeps every other process out until `close`."""
        try:
            for one in (self.root, self._notes):
                if one.is_symlink():
                    raise BadInput("--volumes", self.root, f"{one} is a symbolic link; a directory is allowed")
                if one is self.root and not one.exists():
                    logger.info("made a directory that was missing", extra={"directory": str(one)})
                one.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.root = self.root.resolve()  # what stands in volumes must mean the same to everybody
            self._notes = self.root / NOTES
            lock = os.open(self._notes / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            problem = f"cannot be used ({error.strerror}); a directory that you can write to is allowed"
            raise BadInput("--volumes", self.root, problem) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Locked(f"{self.root}: another process works on these volumes") from None
        self._lock = lock

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    @property
    def notes(self) -> Path:
        """What the world writes down for itself. No volume is in it."""
        return self.root / NOTES

    def path(self, name: str) -> Path:
        if uid_of(name) is None:
            raise Terminal(f"volume {name}: not a name that the world gives, so it has no directory here")
        return self.root / name

    def made(self) -> list[str]:
        """The volumes that were begun here and not yet taken away."""
        return [name for name in os.listdir(self._notes) if uid_of(name)]

    def has_made(self, name: str) -> bool:
        return uid_of(name) is not None and (self._notes / name).exists()

    def make(self, name: str) -> Path:
        """Safe to repeat; what is in it stays."""
        path = self.path(name)
        with _told(path):
            os.close(os.open(self._notes / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            _sync(self._notes)
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
            _sync(self.root)
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise Terminal(f"{path}: there is something that is no directory")
        return path

    def remove(self, name: str) -> None:
        """Safe to repeat. Only what was made here; links in it are removed, not followed."""
        path = self.path(name)
        if not self.has_made(name):
            return
        with _told(path):
            with closing(os.open(self.root, DIRECTORY)) as root:
                try:
                    remove_tree(root, name)
                except NotADirectoryError:
                    raise Terminal(f"{path}: {_kind(path)} is in the place of a volume, and is not removed") from None
                os.fsync(root)
            self.forget(name)

    def forget(self, name: str) -> None:
        """Leaves a directory to whoever asked for it to be kept."""
        self.path(name)
        (self._notes / name).unlink(missing_ok=True)

    def name_of(self, path: str) -> str:
        """The directory below our root that a volume's path means. Any other path is refused: it may be the machine's own."""
        parent, _, name = path.rpartition("/")
        if parent != str(self.root) or name in ("", ".", "..") or name.startswith("."):
            raise Terminal(f"hostPath {path}: not a volume below {self.root}")
        return name


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the file system refuses may change: it is tried again, and says which path it was about."""
    try:
        yield
    except OSError as error:
        where = f"{path}: {error.filename}" if isinstance(error.filename, str) and error.filename != str(path) else str(path)
        raise Retryable(f"{where}: {error.strerror}") from error


def _kind(path: Path) -> str:
    """For the message only."""
    return "a symbolic link" if path.is_symlink() else "something that is no directory"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
