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
import stat
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.clock import Clock
from ullage.errors import NotNow
from ullage.snapshots.backends.hostpath import file_copy
from ullage.snapshots.backends.hostpath.errors import naming, printable
from ullage.snapshots.backends.hostpath.scan import NEVER, Delta, Stamp, Tree, compare, directory_at, scan
from ullage.snapshots.backends.hostpath.threads import Stop

PASSES: Final = 5  # in which a tree is copied; then it does not hold still
_PAUSE: Final = 0.05  # seconds after a pass that found changes; doubled each time
_NAMED: Final = 3  # paths in a message


class TreeKeepsChanging(NotNow):
    """The tree changed as fast as it could be copied."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What came of it."""

    cut: datetime
    skipped: tuple[str, ...]  # sockets and devices: they hold no data, and a device would be a way out of the volume


def copy_tree(source: int, target: int, *, clock: Clock, stop: Stop) -> CopyResult:
    """Copies what is in one directory to another, which is empty. It is on the disk afterwards."""
    return _TreeCopy(source, target, clock=clock, stop=stop).take()


class _TreeCopy:
    """A copy in the making."""

    def __init__(self, source: int, target: int, *, clock: Clock, stop: Stop) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._stop = stop
        self._has: Tree = {}
        self._attributes: dict[str, file_copy.Attributes] = {}  # of directories

    def take(self) -> CopyResult:
        turn = 0
        while True:
            cut = self._clock.now()
            found = scan(self._source, clock=self._clock, stop=self._stop)
            delta = compare(self._has, found)
            if not delta:
                return self._finish(cut, found)
            if turn == PASSES:
                raise TreeKeepsChanging(_restless(delta, self._has))
            if turn:
                self._stop.pause(_PAUSE * 2**turn)
            file_copy.sync_filesystem(self._source)
            done, _ = self._stop.progress
            self._stop.expect(done + sum(found[path].size for path in delta.fresh if found[path].kind == stat.S_IFREG))
            self._remove(delta.gone)
            self._copy(delta.fresh, found)
            turn += 1

    def _finish(self, cut: datetime, found: Tree) -> CopyResult:
        """Directories come last: whatever is made in them changes their times, and may need a mode that theirs denies."""
        for path in reversed(found):
            if found[path].kind == stat.S_IFDIR:
                with directory_at(self._target, path) as directory, naming(path):
                    file_copy.apply_metadata(directory, found[path], attributes=self._attributes.get(path, {}))
        file_copy.sync_filesystem(self._target)
        return CopyResult(cut, tuple(path for path, stamp in found.items() if _without_data(stamp)))

    def _remove(self, gone: tuple[str, ...]) -> None:
        for path in sorted(gone, reverse=True):  # what is in a directory before the directory
            parent, name = _split(path)
            with directory_at(self._target, parent) as directory, suppress(FileNotFoundError), naming(path):
                if self._has[path].kind == stat.S_IFDIR:
                    os.rmdir(name, dir_fd=directory)
                else:
                    os.unlink(name, dir_fd=directory)
            del self._has[path]

    def _copy(self, fresh: tuple[str, ...], found: Tree) -> None:
        links: dict[tuple[int, int], tuple[str, Stamp]] = {}
        with _Pairs(self._source, self._target) as pairs:
            for path in fresh:
                self._stop.check()
                with naming(path):
                    stamp = self._copy_one(path, found[path], pairs=pairs, links=links)
                if stamp is not None:
                    self._has[path] = stamp
                elif path in self._has:  # it may still be in the copy, so it is not forgotten
                    self._has[path] = self._has[path]._replace(ctime=NEVER)

    def _copy_one(
        self, path: str, stamp: Stamp, *, pairs: _Pairs, links: dict[tuple[int, int], tuple[str, Stamp]]
    ) -> Stamp | None:
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
        if stamp.links > 1 and stamp.identity in links:
            first, copied = links[stamp.identity]
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
        links[stamp.identity] = path, result
        return result

    def _copy_directory(self, path: str) -> bool:
        """It stays ours alone, and without attributes that what is made in it would inherit, until it is finished."""
        try:
            with directory_at(self._source, path) as theirs:
                self._attributes[path] = file_copy.read_attributes(theirs)
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


def _restless(delta: Delta, has: Tree) -> str:
    """Files say more than the directories that changed with them."""
    changed = [*delta.fresh, *delta.gone]
    files = [path for path in changed if path not in has or has[path].kind != stat.S_IFDIR] or changed
    named = ", ".join(printable(path) or "the top directory" for path in sorted(files)[:_NAMED])
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f"kept changing while it was copied, {PASSES} times: {named}{more}; stop or freeze what writes there for a moment"
