"""What a tree takes on the disk, and what a copy of it would take at most.

The two differ. A copy keeps holes and hard links, but lies on a file system of its own: that one may have larger blocks, does
not compress where the volume's does, and fills the blocks of a directory in another order.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from ullage.clock import Clock
from ullage.files.sparse import extents
from ullage.files.trees import closing
from ullage.snapshots.backends.base import InProgress, TakesTooLong
from ullage.snapshots.backends.hostpath.copies import Turns
from ullage.snapshots.backends.hostpath.errors import bytes_text, naming, printable
from ullage.snapshots.backends.hostpath.scan import directory_at, walk
from ullage.snapshots.backends.hostpath.threads import Stop, Workers

SMALLEST_BLOCK: Final = 512
LARGEST_BLOCK: Final = 64 * 1024  # what network file systems call a block is what they like to be sent at once
_SHORT_LINK: Final = 60  # bytes of a symbolic link that needs no block of its own
_ENTRY: Final = 16  # bytes that a name takes in a directory beside its own
_PIECE: Final = 1024 * 1024  # bytes that a file system has in one place at least, where it does not have to do with little room
_IN_INODE: Final = 4  # pieces of a file whose places need no block of their own
_IN_BLOCK: Final = 170  # places in a block that is filled by half
_INODES: Final = 250_000  # files with several names that are remembered, in some 30 MB
_BREATH: Final = 1000  # extents between two looks at whether anybody still wants it
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})  # or another file has its name by now
_NO_HOLES: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS})  # none that the file system tells of
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tree takes. A file with several names counts once."""

    entries: int  # files, directories, links…, the top not included
    apparent: int  # the bytes of all files, as long as they claim to be
    allocated: int  # the bytes on the disk, directories included; a block shared with another file (a reflink) counts fully


def measure(top: int, *, stop: Stop) -> Usage:
    """What a tree takes now in which all names of a file are: a copy of ours."""
    entries = 0
    apparent: dict[int, int] = defaultdict(int)  # by how many names a file has: each of them brings its part
    allocated: dict[int, int] = defaultdict(int)

    def enter(path: str, directory: int) -> None:
        nonlocal entries
        entries += bool(path)
        allocated[1] += _on_disk(os.fstat(directory))

    for _path, entry in walk(top, enter=enter, stop=stop):
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        entries += 1
        apparent[found.st_nlink] += found.st_size if stat.S_ISREG(found.st_mode) else 0
        allocated[found.st_nlink] += _on_disk(found)
    return Usage(entries=entries, apparent=_shared(apparent), allocated=_shared(allocated))


def copy_bound(top: int, *, block: int, stop: Stop) -> int:
    """The bytes that a copy of a tree would take at most on a file system with blocks of that size, if it were made now.

    Memory is bounded: of very many files with several names, some are counted once for each name.
    """
    block = min(max(block, SMALLEST_BLOCK), LARGEST_BLOCK)
    inodes: set[tuple[int, int]] = set()
    directories = _Directories(block)
    total = 0
    for path, entry in walk(top, enter=directories.enter, stop=stop):
        directories.name(entry.name)
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if found.st_nlink > 1:
            identity = found.st_dev, found.st_ino
            if identity in inodes:
                continue
            if len(inodes) < _INODES:
                inodes.add(identity)
        size = _file(top, path, found, block=block, stop=stop)
        stop.advance(size)
        total += size
    return total + directories.total()


class _Directories:
    """What they take at most, by the names in them: some file systems do not tell, and where names come in another order
    the blocks of a directory may be filled by half."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._sum = 0
        self._here: int | None = None  # bytes that the one takes which is being read
        self._names = 0  # bytes of the names in it

    def enter(self, path: str, directory: int) -> None:
        self._sum = self.total()
        self._here, self._names = _on_disk(os.fstat(directory)), 0
        if path:  # its own name is in one that was read before
            self._sum += 2 * _entry(path.rpartition("/")[2])

    def name(self, name: str) -> None:
        self._names += _entry(name)

    def total(self) -> int:
        if self._here is None:
            return 0
        names = self._block if self._names <= self._block else _rounded(2 * self._names, self._block) + self._block
        return self._sum + max(names, min(self._here, names + self._block))  # one more for its attributes


def _entry(name: str) -> int:
    return len(os.fsencode(name)) + _ENTRY


def _shared(parts: dict[int, int]) -> int:
    return sum(amount // max(names, 1) for names, amount in parts.items())


def _on_disk(found: os.stat_result) -> int:
    return found.st_blocks * 512


def _rounded(size: int, block: int) -> int:
    return -(-size // block) * block


def _file(top: int, path: str, found: os.stat_result, *, block: int, stop: Stop) -> int:
    here, size = _on_disk(found), found.st_size
    if stat.S_ISLNK(found.st_mode):
        return max(here, block if size >= _SHORT_LINK else 0)
    if not stat.S_ISREG(found.st_mode):
        return 0 if not stat.S_ISFIFO(found.st_mode) else here  # sockets and devices are not copied
    if here < size:  # it has holes, or is compressed
        return max(here, _data(top, path, size, block=block, stop=stop))
    pieces = 1 if size < _PIECE else _IN_INODE + size // _PIECE
    return max(here, _rounded(size, block) + _map(pieces, block))


def _data(top: int, path: str, size: int, *, block: int, stop: Stop) -> int:
    """The bytes of a file that are not in holes, in whole blocks."""
    parent, _, name = path.rpartition("/")
    total = number = 0
    try:
        with directory_at(top, parent) as directory, naming(path), closing(os.open(name, _READ, dir_fd=directory)) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return 0
            for number, (start, end) in enumerate(extents(file), 1):
                if number % _BREATH == 0:
                    stop.check()
                total += _rounded(end, block) - start // block * block
    except OSError as error:
        if error.errno in _GONE:
            return 0
        if error.errno not in _NO_HOLES:
            raise
        return _rounded(size, block)
    return min(total, _rounded(size, block)) + _map(number, block)  # two pieces of data may lie in one block


def _map(pieces: int, block: int) -> int:
    """The blocks that say where the pieces of a file lie. A file system finds room for them when the file is synced."""
    return 0 if pieces <= _IN_INODE else block * (1 + -(-pieces // _IN_BLOCK))


# Looks at trees that take as long as they take: a caller waits a little, and asks again. It gets what a look found that
# was begun for it: one that somebody else had begun may be older than the question. A tenant can make a tree of a
# hundred million files: so looks are few at a time, shared by turns between namespaces, and end after a while.


LONGEST: Final = 600.0  # seconds
KEPT: Final = 30.0  # seconds for which a result waits for whoever asked: after that he has to have it looked at anew
RECENT: Final = 60.0  # seconds for which what was found for a snapshot will do for nobody in particular…
TIMES: Final = 20  # …or so many times as long as it took to find that


class WalkKey(NamedTuple):
    """Who wants to know about which volume. Without an owner it is nobody in particular, who may be told what was found for
    others a moment ago. It is told that once."""

    owner: str
    volume: str


@dataclass(slots=True)
class _Walk:
    task: asyncio.Task[int]
    stop: Stop
    ended: float = 0.0


class _Found(NamedTuple):
    bytes: int
    until: float  # on the monotonic clock


class Walks:
    def __init__(self, threads: int, *, patience: float, clock: Clock, longest: float = LONGEST) -> None:
        self._workers = Workers(threads, name="hostpath-walk")
        self._turns = Turns(threads)
        self._patience = patience
        self._clock = clock
        self._longest = longest
        self._walks: dict[WalkKey, _Walk] = {}
        self._found: dict[str, _Found] = {}  # by volume: what was found last for somebody

    async def run(self, key: WalkKey, work: Callable[[Stop], int]) -> int:
        """What came of the work. InProgress: it goes on, ask again. Whoever is cancelled leaves it to the next one who asks."""
        self._forget_old()
        walk = self._walks.get(key)
        if walk is None and not key.owner and (known := self._found.pop(key.volume, None)) is not None:
            return known.bytes  # once: after its interval it wants to know how it is by then
        if walk is None:
            stop = Stop()
            walk = self._walks[key] = _Walk(asyncio.create_task(self._work(key, work, stop)), stop)
            walk.task.add_done_callback(lambda task: self._note_end(key, task))
        await asyncio.wait({walk.task}, timeout=self._patience)
        if not walk.task.done():
            seen, _ = walk.stop.progress
            raise InProgress(f"looking at what is in the volume: {bytes_text(seen)} so far")
        if self._walks.get(key) is walk:
            del self._walks[key]
        return walk.task.result()

    async def close(self) -> None:
        walks = [walk.task for walk in self._walks.values()]
        self._walks.clear()
        for task in walks:
            task.cancel()
        await asyncio.gather(*walks, return_exceptions=True)

    async def _work(self, key: WalkKey, work: Callable[[Stop], int], stop: Stop) -> int:
        async with self._turns.taken(key.owner):
            try:
                began = self._clock.monotonic()
                async with asyncio.timeout(self._longest):
                    found = await self._workers.run(work, stop=stop)
                self._remember(key, found, began=began)
                return found
            except TimeoutError:
                seen, _ = stop.progress
                what, took = f"volume {printable(key.volume)}", f"{self._longest:g} s"
                message = f"{what} cannot be measured: after {took} only {bytes_text(seen)} of it were looked at"
                raise TakesTooLong(message) from None

    def _remember(self, key: WalkKey, found: int, *, began: float) -> None:
        """Not what nobody in particular had looked at: he asks again when he wants to know how it is by then."""
        if key.owner:
            now = self._clock.monotonic()
            self._found[key.volume] = _Found(found, now + max(RECENT, TIMES * (now - began)))

    def _note_end(self, key: WalkKey, task: asyncio.Task[int]) -> None:
        with suppress(asyncio.CancelledError):
            task.exception()  # whoever asked may have gone: nobody has to be told of an error then
        walk = self._walks.get(key)
        if walk is not None and walk.task is task:
            walk.ended = self._clock.monotonic()

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for key in [key for key, known in self._walks.items() if known.task.done() and known.ended < now - KEPT]:
            del self._walks[key]
        for volume in [volume for volume, one in self._found.items() if one.until < now]:
            del self._found[volume]
