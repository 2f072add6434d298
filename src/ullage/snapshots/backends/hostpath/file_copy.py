"""One file, one copy: its data with its holes, its owner, its mode, its times and its extended attributes.

Where the file system can share blocks between files (a reflink) the copy costs nothing. Elsewhere only data is read and
written, and holes stay holes. A file that changes while it is copied is copied again, a few times.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from ullage.clock import Clock
from ullage.files.sparse import extents
from ullage.files.trees import closing
from ullage.snapshots.backends.hostpath.scan import Stamp, settle
from ullage.snapshots.backends.hostpath.threads import Stop

Attributes = Mapping[str, bytes]

TRIES: Final = 3  # in one pass through the tree
_PIECE: Final = 8 * 1024 * 1024  # bytes between two looks at whether anybody still wants the copy
_FICLONE: Final = 0x40049409  # Linux: share all blocks of another file
# Access lists and capabilities belong to a file as its mode does. Labels belong to the place where a file lies.
_KEPT: Final = ("user.", "system.posix_acl_", "security.capability")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # never waits for a pipe's other end
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The ways in which a file system or a kernel says that it cannot do it like this: then it is done in a plainer way.
_CANNOT: Final = frozenset(
    {errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.EPERM, errno.ETXTBSY}
)


def copy_file(source: int, target: int, name: str, *, seen: Stamp, clock: Clock, stop: Stop) -> Stamp | None:
    """Copies a file from one directory to another; gives back what it was like all the time. None: it never held still.

    `seen` is from a walk through the tree, after which its file system was synced. Both are needed for what is written through
    a memory map: a page that is dirty already can be written to without a trace, and a sync ends that.
    """
    for again in range(TRIES):
        try:
            file = os.open(name, _READ, dir_fd=source)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):  # gone, or not a file any more
                break
            raise
        with closing(file):
            found = Stamp.of(os.fstat(file))
            before = found if again else seen
            if found.kind != stat.S_IFREG:
                break
            if again:
                os.fdatasync(file)
            settle(before, clock=clock, stop=stop)
            _write(file, target, name, like=before, stop=stop)
            if before == Stamp.of(os.fstat(file)) == _named(source, name):
                return before
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    return None


def read_attributes(file: int) -> Attributes:
    """The extended attributes of a file or a directory that a copy keeps."""
    try:
        names = [name for name in os.listxattr(file) if name.startswith(_KEPT)]
        return {name: os.getxattr(file, name) for name in names}
    except OSError as error:
        if error.errno in _CANNOT | {errno.ENODATA}:  # ENODATA: taken away a moment ago, which changes the file's stamp
            return {}
        raise


def apply_metadata(target: int, like: Stamp, *, attributes: Attributes) -> None:
    """Owner, attributes, mode and times: in this order, for each undoes or forbids a part of those before or after it."""
    mode = stat.S_IMODE(like.mode)
    try:
        os.fchown(target, like.owner, like.group)
    except PermissionError:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # it is ours then, and must not lend our rights to whoever runs it
    for name, value in attributes.items():
        try:
            os.setxattr(target, name, value)
        except OSError as error:
            if error.errno not in _CANNOT:  # not here, or not with our rights
                raise
    os.fchmod(target, mode)
    os.utime(target, ns=(like.mtime, like.mtime))


def make_ours(directory: int) -> None:
    """Takes back what `apply_metadata` has done to a directory: nobody else gets in, and nothing is handed down."""
    for name in read_attributes(directory):
        os.removexattr(directory, name)
    os.fchmod(directory, 0o700)


def sync_filesystem(directory: int) -> None:
    """Everything that was written to the file system is on the disk. One call: a sync of every file alone takes a hundred times
    as long where there are many."""
    if _LIBC is None:
        os.sync()
    elif _LIBC.syncfs(directory) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _libc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "syncfs") else None


_LIBC: Final = _libc()


def _write(file: int, target: int, name: str, *, like: Stamp, stop: Stop) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    with closing(os.open(name, _NEW, 0o600, dir_fd=target)) as copy:
        copy_data(file, copy, size=like.size, stop=stop)
        apply_metadata(copy, like, attributes=read_attributes(file))


def copy_data(source: int, target: int, *, size: int, stop: Stop) -> None:
    """The content of one open file to another, empty one."""
    if _clone(source, target):
        stop.advance(size)
        return
    before, _ = stop.progress
    for start, end in _data(source, size):
        _copy_range(source, target, start=start, end=end, stop=stop)
    os.ftruncate(target, size)
    stop.advance(size - (stop.progress[0] - before))  # holes are done too


def _clone(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise
    return True


def _data(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Where the first `size` bytes of a file have data. A file system that knows no holes has one piece."""
    end = 0
    try:
        for start, end in extents(source):
            if start >= size:
                return
            yield start, min(end, size)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        yield end, size


def _copy_range(source: int, target: int, *, start: int, end: int, stop: Stop) -> None:
    move = _in_kernel
    while start < end:
        stop.check()
        try:
            moved = move(source, target, start, min(_PIECE, end - start))
        except OSError as error:
            if move is _plainly or error.errno not in _CANNOT:
                raise
            move = _plainly
            continue
        if not moved:  # it became shorter: that is found out afterwards
            return
        start += moved
        stop.advance(moved)


def _in_kernel(source: int, target: int, start: int, count: int) -> int:
    return os.copy_file_range(source, target, count, offset_src=start, offset_dst=start)


def _plainly(source: int, target: int, start: int, count: int) -> int:
    return os.pwrite(target, os.pread(source, min(count, 1024 * 1024), start), start)


def _named(directory: int, name: str) -> Stamp | None:
    """What the name stands for now: another file may have been renamed to it."""
    try:
        return Stamp.of(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None
