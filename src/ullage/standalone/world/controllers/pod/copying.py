"""Copies trees of files between volumes, without ever leaving them.

Every step goes through an open directory and refuses symbolic links (O_NOFOLLOW), so that neither a link in the data nor one
that appears meanwhile leads outside. Links themselves are copied as links. Holes stay holes. May block for long: it runs in
a thread, and looks at `stop` between pieces.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ullage.errors import Terminal
from ullage.files.sparse import extents
from ullage.files.trees import DIRECTORY, DirectoriesAhead, closing, descend, open_up
from ullage.standalone.world.controllers.pod.commands import Copy, MountedPath

PIECE: Final = 1024 * 1024
DEEPEST: Final = 256  # levels, as in snapshots; every directory is reached from the top anew
_LONGEST: Final = 200  # characters of a path in a message
_ENTER: Final = "+"
_LEAVE: Final = "-"
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not make us wait for its other end


class CopyFailed(Terminal):
    """What a person reads on the pod: the path as the container knows it, and why."""


class Stopped(Exception):
    """Told to stop. What was copied so far stays, and is copied over the next time."""


def copy(step: Copy, roots: Callable[[str], Path], *, stop: threading.Event) -> int:
    """Performs a copy; returns the bytes of data that were written. `roots` finds the directory of a volume of the pod."""
    worker = _Worker(step, stop)
    with _open(roots(step.target.volume)) as root:
        if step.inside:
            with _descend(root, step.target, make=True) as folder:
                _into(worker, roots, folder)
        else:
            _as_named(worker, roots, root)
    return worker.written


def _into(worker: _Worker, roots: Callable[[str], Path], folder: int) -> None:
    """Each source gets its own name in an open directory, or is poured out into it."""
    for source in worker.step.sources:
        with _open(roots(source.place.volume)) as root:
            if source.contents or not source.place.parts:
                with _descend(root, source.place) as found:
                    if source.contents:
                        worker.contents(found, folder, shown=source.place.shown)
                    else:  # a whole volume, under the name that it is mounted by
                        worker.folder(found, folder, source.place.name, shown=source.place.shown)
            else:
                with _parent(root, source.place) as found:
                    worker.named(found, source.place.name, folder, source.place.name, shown=source.place.shown)


def _as_named(worker: _Worker, roots: Callable[[str], Path], root: int) -> None:
    """`cp -a SRC DST`: into DST where that is a directory, else as DST."""
    target = worker.step.target
    if not target.parts or _is_folder(root, target):
        with _descend(root, target) as folder:
            return _into(worker, roots, folder)
    (source,) = worker.step.sources
    with _parent(root, target) as folder, _open(roots(source.place.volume)) as other:
        if not source.place.parts:
            with _descend(other, source.place) as found:
                return worker.folder(found, folder, target.name, shown=source.place.shown)
        with _parent(other, source.place) as found:
            worker.named(found, source.place.name, folder, target.name, shown=source.place.shown)


class _Worker:
    def __init__(self, step: Copy, stop: threading.Event) -> None:
        self.step = step
        self.written = 0
        self._stop = stop
        self._targets: set[tuple[int, int]] = set()  # the tops of what we fill: a copy into itself would never end

    def contents(self, source: int, target: int, *, shown: str) -> None:
        """All that is in an open directory, into another one.

        Directories that are ahead are remembered by their paths, and reached from the top anew: neither their depth nor their
        number costs open directories or memory. Each is finished after what is in it, since its own mode may deny that.
        """
        self._need_recursion(shown)
        self._targets.add(_identity(os.fstat(target)))
        with DirectoriesAhead() as ahead:
            ahead.push(_ENTER)
            while (step := ahead.pop()) is not None:
                path = step[1:]
                here = f"{shown.rstrip('/.')}/{path}" if path else shown
                with _tell(here), _at(source, path) as theirs, _at(target, path) as ours:
                    if step[0] == _LEAVE:
                        self._finish(theirs, ours)
                        continue
                    if path:
                        ahead.push(_LEAVE + path)
                    for name in self._level(theirs, ours, shown=here):
                        below = f"{path}/{name}" if path else name
                        if below.count("/") >= DEEPEST:
                            raise CopyFailed(f"{_short(here)}: has directories that are more than {DEEPEST} levels deep")
                        ahead.push(_ENTER + below)
        if self.step.keep:
            _keep(os.fstat(source), target)

    def _level(self, source: int, target: int, *, shown: str) -> Iterator[str]:
        """Copies what is in one directory, and gives the directories in it: they are made, and ours alone for now."""
        with os.scandir(source) as entries:
            for entry in entries:
                if self.entry(source, entry.name, target, shown=f"{shown.rstrip('/.')}/{entry.name}"):
                    os.close(_made(entry.name, target))
                    yield entry.name

    def _finish(self, source: int, target: int) -> None:
        found = os.fstat(source)
        if self.step.keep:
            _keep(found, target)
        os.fchmod(target, stat.S_IMODE(found.st_mode))

    def folder(self, source: int, target: int, name: str, *, shown: str) -> None:
        """An open directory as `name` in another."""
        self._need_recursion(shown)
        with _tell(shown):
            made = _made(name, target)
        with closing(made):
            self.contents(source, made, shown=shown)
            os.fchmod(made, stat.S_IMODE(os.fstat(source).st_mode))

    def named(self, source: int, name: str, target: int, new_name: str, *, shown: str) -> None:
        """Whatever has a name in an open directory, under a name in another one."""
        if self.entry(source, name, target, new_name, shown=shown):
            with _tell(shown):
                opened = os.open(name, DIRECTORY, dir_fd=source)
            with closing(opened):
                self.folder(opened, target, new_name, shown=shown)

    def entry(self, source: int, name: str, target: int, new_name: str = "", *, shown: str) -> bool:
        """Copies what is no directory. True: it is one, and is left to the caller."""
        if self._stop.is_set():
            raise Stopped
        new_name = new_name or name
        with _tell(shown):
            found = os.stat(name, dir_fd=source, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                if _identity(found) in self._targets:
                    raise CopyFailed(f"{_short(shown)}: cannot be copied into itself")
                return True
            if stat.S_ISREG(found.st_mode):
                self._file(source, name, target, new_name)
            elif stat.S_ISLNK(found.st_mode):
                _replace_link(os.readlink(name, dir_fd=source), target, new_name)
            elif stat.S_ISFIFO(found.st_mode):
                with suppress(FileExistsError):
                    os.mkfifo(new_name, stat.S_IMODE(found.st_mode), dir_fd=target)
            else:
                raise CopyFailed(f"{_short(shown)}: neither a file, a directory, a link nor a pipe")
        return False

    def _file(self, source: int, name: str, target: int, new_name: str) -> None:
        reading = os.open(name, os.O_RDONLY | _FILE, dir_fd=source)
        try:
            found = os.fstat(reading)
            writing = _create(target, new_name, found)
            try:
                self._data(reading, writing)
                os.fchmod(writing, stat.S_IMODE(found.st_mode))
                if self.step.keep:
                    _keep(found, writing)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def _data(self, reading: int, writing: int) -> None:
        os.ftruncate(writing, 0)
        for position, end in extents(reading):
            while position < end and (piece := os.pread(reading, min(PIECE, end - position), position)):
                if self._stop.is_set():
                    raise Stopped
                position += os.pwrite(writing, piece, position)
                self.written += len(piece)
        os.ftruncate(writing, os.fstat(reading).st_size)

    def _need_recursion(self, shown: str) -> None:
        if not self.step.recursive:
            raise CopyFailed(f"{shown}: a directory, and -a or -r was not given")


def _made(name: str, target: int) -> int:
    """A directory, and a descriptor of it. An earlier try may have left it as its source is: read-only."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=target)
    open_up(target, name)
    made = os.open(name, DIRECTORY, dir_fd=target)
    os.fchmod(made, 0o700)
    return made


@contextmanager
def _at(top: int, path: str) -> Iterator[int]:
    with closing(descend(top, path.split("/") if path else ())) as directory:
        yield directory


def _short(shown: str) -> str:
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _create(folder: int, name: str, source: os.stat_result) -> int:
    """A new or an emptied file. What stands there and is no file, or is a link, gives way; a directory does not."""
    with suppress(FileNotFoundError):
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if _identity(there) == _identity(source):
            raise CopyFailed(f"{name}: source and target are the same file")
        if not stat.S_ISREG(there.st_mode) and not stat.S_ISDIR(there.st_mode):
            os.unlink(name, dir_fd=folder)
    try:
        return os.open(name, os.O_WRONLY | os.O_CREAT | _FILE, 0o600, dir_fd=folder)
    except PermissionError:  # it is read-only, as its source is: `cp -f` does the same
        os.unlink(name, dir_fd=folder)
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=folder)


def _replace_link(text: str, folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
    os.symlink(text, name, dir_fd=folder)


def _keep(source: os.stat_result, target: int) -> None:
    with suppress(PermissionError):  # only the administrator gives files away
        os.fchown(target, source.st_uid, source.st_gid)
    os.fchmod(target, stat.S_IMODE(source.st_mode))  # after the owner: a change of owner drops some bits
    os.utime(target, ns=(source.st_atime_ns, source.st_mtime_ns))


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _is_folder(root: int, place: MountedPath) -> bool:
    try:
        with _descend(root, place):
            return True
    except CopyFailed:
        return False


@contextmanager
def _open(path: Path) -> Iterator[int]:
    with _tell(path.name):
        descriptor = os.open(path, DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _descend(root: int, place: MountedPath, *, make: bool = False, skip: int = 0) -> Iterator[int]:
    """The directory of a place, opened name by name; `make` the last one where it is missing. `skip` leaves out the end."""
    parts = place.parts[: len(place.parts) - skip]
    here = os.dup(root)
    try:
        for index, part in enumerate(parts):
            with _tell(place.shown):
                if make and index == len(parts) - 1:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=here)
                below = os.open(part, DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


@contextmanager
def _parent(root: int, place: MountedPath) -> Iterator[int]:
    with _descend(root, place, skip=1) as found:
        yield found


@contextmanager
def _tell(shown: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        link = error.errno == errno.ELOOP
        raise CopyFailed(f"{_short(shown)}: {'a symbolic link is not followed' if link else error.strerror}") from error
