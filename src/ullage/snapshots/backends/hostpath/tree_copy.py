"""One tree, one copy: what the tree was at one moment.

It is copied and then walked through again. What has changed, come or gone meanwhile is copied anew, until a walk finds
nothing. The *cut* is the moment at which that last walk began. Every file was copied before it and found unchanged after it,
and so was every directory's list of names: so at the cut the tree was what the copy is, all of it at once.

As far as timestamps tell, that is. A file system that does not update them (some network file systems, for a while; memory
maps on tmpfs) can hide a change. And a tree that an application writes to without a pause has no such moment: then there is
no copy, and the error names what kept changing.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from ullage.clock import Clock
from ullage.errors import NotNow
from ullage.files.trees import DirectoriesAhead, open_up
from ullage.snapshots.backends.hostpath import file_copy
from ullage.snapshots.backends.hostpath.copy_notes import CopyNotes
from ullage.snapshots.backends.hostpath.errors import naming, printable
from ullage.snapshots.backends.hostpath.scan import NEVER, Stamp, directory_at, scan
from ullage.snapshots.backends.hostpath.threads import Stop
from ullage.snapshots.backends.hostpath.tree_index import TreeIndex

PASSES: Final = 5  # in which a tree is copied; then it does not hold still
_PAUSE: Final = 0.05  # seconds after a pass that found changes; doubled each time
_NAMED: Final = 3  # paths in a message
_SKIPPED: Final = 1000  # paths of what was left out


class TreeKeepsChanging(NotNow):
    """The tree changed as fast as it could be copied."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What came of it."""

    cut: datetime
    skipped: int  # sockets and devices: they hold no data, and a device would be a way out of the volume
    skipped_paths: tuple[str, ...]  # the first of these


def copy_tree(
    source: int, target: int, *, clock: Clock, stop: Stop, scratch: Path | None = None, notes: Path | None = None
) -> CopyResult:
    """Copies what is in one directory to another, which is empty or what `notes` tell of. It is on the disk afterwards.
    `scratch` is a file that is made and removed for a tree that is too large for the memory."""
    try:
        with CopyNotes(notes) if notes else nullcontext() as kept, TreeIndex(scratch, kept) as index:
            copy = _TreeCopy(source, target, index=index, clock=clock, stop=stop)
            if kept is not None:
                copy.go_on()
            return copy.take()
    except sqlite3.Error as error:  # of our own notes: no room for them, or none that can be read back
        raise OSError(errno.ENOSPC if "full" in str(error) else errno.EIO, f"notes of the copy: {error}") from error


class _TreeCopy:
    """A copy in the making."""

    def __init__(self, source: int, target: int, *, index: TreeIndex, clock: Clock, stop: Stop) -> None:
        self._source = source
        self._target = target
        self._index = index
        self._clock = clock
        self._stop = stop
        self._attributes: dict[str, file_copy.Attributes] = {}  # of the directories that have some

    def take(self) -> CopyResult:
        turn = 0
        while True:
            cut = self._clock.now()
            scan(self._source, self._index, clock=self._clock, stop=self._stop)
            if not self._index.compare():
                return self._finish(cut)
            if turn == PASSES:
                raise TreeKeepsChanging(_restless(*self._index.restless(_NAMED)))
            if turn:
                self._stop.pause(_PAUSE * 2**turn)
            file_copy.sync_filesystem(self._source)
            done, _ = self._stop.progress
            self._stop.expect(done + self._index.fresh_bytes())
            self._remove()
            self._copy()
            turn += 1

    def go_on(self) -> None:
        """Takes over what an earlier process has copied. What is not known to be whole counts as changed: the first pass
        copies it again, or removes it. So does every directory, since its attributes come last."""
        self._index.recall()
        self._index.forget_links()
        with DirectoriesAhead() as ahead:
            ahead.push("")
            while (path := ahead.pop()) is not None:
                self._stop.check()
                for below in self._take_over(path):
                    ahead.push(below)
        self._index.forget_noted()

    def _take_over(self, path: str) -> Iterator[str]:
        """What is in a directory of the copy; gives the directories in it."""
        with directory_at(self._target, path) as directory, naming(path):
            file_copy.make_ours(directory)
            with os.scandir(directory) as entries:
                for entry in entries:
                    below = f"{path}/{entry.name}" if path else entry.name
                    found = Stamp.of(entry.stat(follow_symlinks=False))
                    if found.kind == stat.S_IFDIR:
                        open_up(directory, entry.name)
                        yield below
                    self._index.take_over(below, self._whole(below, found) or found._replace(ctime=NEVER))

    def _whole(self, path: str, found: Stamp) -> Stamp | None:
        """What a file was when it was copied; None where its copy may be another. The time of a copy is set last.

        One name that is not with the others of its file is enough: the names of a file are fresh together.
        """
        noted = self._index.noted(path)
        if noted is None:
            return None
        if (noted.kind, noted.size, noted.mtime) != (found.kind, found.size, found.mtime):
            return None
        if noted.links == 1 and found.links > 1:
            return None
        if noted.links > 1:
            first = self._index.linked(noted.identity)
            if first is None:
                self._index.link(noted.identity, path, found)
            elif first[1].identity != found.identity:
                return None
        if found.kind == stat.S_IFREG:
            self._stop.advance(found.size)
        return noted

    def _finish(self, cut: datetime) -> CopyResult:
        """Directories come last: whatever is made in them changes their times, and may need a mode that theirs denies."""
        for path, stamp in self._index.directories():
            with directory_at(self._target, path) as directory, naming(path):
                file_copy.apply_metadata(directory, stamp, attributes=self._attributes.get(path, {}))
        file_copy.sync_filesystem(self._target)
        return CopyResult(cut, *self._index.without_data(_SKIPPED))

    def _remove(self) -> None:
        for path, kind in self._index.gone():  # what is in a directory before the directory
            parent, name = _split(path)
            with directory_at(self._target, parent) as directory, suppress(FileNotFoundError), naming(path):
                if kind == stat.S_IFDIR:
                    os.rmdir(name, dir_fd=directory)
                else:
                    os.unlink(name, dir_fd=directory)
            self._index.drop(path)

    def _copy(self) -> None:
        self._index.forget_links()
        with _Pairs(self._source, self._target) as pairs:
            for path, found in self._index.fresh():
                self._stop.check()
                with naming(path):
                    stamp = self._copy_one(path, found, pairs=pairs)
                if stamp is not None:
                    self._index.hold(path, stamp)
                else:
                    self._index.doubt(path)

    def _copy_one(self, path: str, stamp: Stamp, *, pairs: _Pairs) -> Stamp | None:
        """What the copy is like now; None where it is not to be had: the next pass sees to it."""
        if stamp.kind == stat.S_IFDIR:
            return stamp if self._copy_directory(path) else None
        if _without_data(stamp):
            return stamp
        parent, name = _split(path)
        pair = pairs.at(parent)
        if pair is None:
            return None
        source, target = pair
        if stamp.links > 1 and (known := self._index.linked(stamp.identity)):
            first, copied = known
            _link(self._target, first, target, name)
            return copied
        if stamp.kind == stat.S_IFREG:
            result = file_copy.copy_file(source, target, name, seen=stamp, clock=self._clock, stop=self._stop)
        else:
            result = stamp if _copy_special(source, target, name, stamp=stamp) else None
        if result is None or result.links == 1:
            return result
        if stamp.links == 1 or result.identity != stamp.identity:  # it has come to be one of several names since the walk
            return result._replace(ctime=NEVER)  # the next pass makes all of them, as one file
        self._index.link(stamp.identity, path, result)
        return result

    def _copy_directory(self, path: str) -> bool:
        """It stays ours alone, and without attributes that what is made in it would inherit, until it is finished."""
        try:
            with directory_at(self._source, path) as theirs:
                if attributes := file_copy.read_attributes(theirs):
                    self._attributes[path] = attributes
                else:
                    self._attributes.pop(path, None)
            if path:
                parent, name = _split(path)
                with directory_at(self._target, parent) as ours, suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=ours)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


class _Pairs:
    """The same directory on both sides, kept open while the files in it are copied."""

    def __init__(self, source: int, target: int) -> None:
        self._tops = source, target
        self._path: str | None = None
        self._pair: tuple[int, int] | None = None
        self._open = ExitStack()

    def __enter__(self) -> _Pairs:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._open.close()

    def at(self, path: str) -> tuple[int, int] | None:
        """None where it is gone."""
        if path != self._path:
            self._open.close()
            self._path, self._pair = path, None
            with suppress(FileNotFoundError, NotADirectoryError):
                source, target = (self._open.enter_context(directory_at(top, path)) for top in self._tops)
                self._pair = source, target
        return self._pair


def _copy_special(source: int, target: int, name: str, *, stamp: Stamp) -> bool:
    """A symbolic link, which is never followed, or a pipe."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    if stamp.kind == stat.S_IFLNK:
        try:
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        except OSError as error:
            if isinstance(error, FileNotFoundError) or error.errno == errno.EINVAL:
                return False
            raise
    else:
        os.mkfifo(name, 0o600, dir_fd=target)
        os.chmod(name, stat.S_IMODE(stamp.mode), dir_fd=target)
    with suppress(PermissionError):
        os.chown(name, stamp.owner, stamp.group, dir_fd=target, follow_symlinks=False)
    os.utime(name, ns=(stamp.mtime, stamp.mtime), dir_fd=target, follow_symlinks=False)
    return True


def _link(top: int, first: str, target: int, name: str) -> None:
    parent, known = _split(first)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    with directory_at(top, parent) as directory:
        os.link(known, name, src_dir_fd=directory, dst_dir_fd=target, follow_symlinks=False)


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent, name


def _without_data(stamp: Stamp) -> bool:
    return stamp.kind in (stat.S_IFSOCK, stat.S_IFBLK, stat.S_IFCHR)


def _restless(count: int, first: list[str]) -> str:
    named = ", ".join(printable(path) or "the top directory" for path in first)
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    return f"kept changing while it was copied, {PASSES} times: {named}{more}; stop or freeze what writes there for a moment"
