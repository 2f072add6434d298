"""Disks that fail: one that stops between any two calls, and one that forgets what nobody synced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ullage.engines.local.store.files import Files
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.spans import Span

Skips = Callable[[str], bool]


class Killed(BaseException):
    """The process is gone. Not an Exception: nothing may catch it and go on."""


class Killing:
    """Files of a process that is killed before its n-th change from now on. Reading is no change."""

    def __init__(self, files: Files, *, skips_sync: Skips = lambda _: False) -> None:
        self._files = files
        self._left: int | None = None
        self._skips_sync = skips_sync
        self.dead = False
        self.changes = 0

    def kill_before(self, change: int | None) -> None:
        self._left = change

    def names(self, directory: str) -> list[str]:
        self._look()
        return self._files.names(directory)

    def read(self, path: str, *, offset: int, length: int) -> bytes:
        self._look()
        return self._files.read(path, offset=offset, length=length)

    def extents(self, path: str) -> list[Span]:
        self._look()
        return self._files.extents(path)

    def allocated(self, path: str) -> int:
        self._look()
        return self._files.allocated(path)

    def create(self, path: str, *, size: int) -> None:
        self._change()
        self._files.create(path, size=size)

    def write(self, path: str, *, offset: int, data: bytes) -> None:
        """Block by block: a call that is cut short has written some of them."""
        for start in range(0, len(data), BLOCK):
            self._change()
            self._files.write(path, offset=offset + start, data=data[start : start + BLOCK])

    def punch(self, path: str, span: Span) -> None:
        for start in range(span.start, span.end, BLOCK):
            self._change()
            self._files.punch(path, Span(start, start + BLOCK))

    def sync(self, path: str) -> None:
        self._change()
        if not self._skips_sync(path):
            self._files.sync(path)

    def link(self, source: str, target: str) -> None:
        self._change()
        self._files.link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._change()
        self._files.rename(source, target)

    def remove(self, path: str) -> None:
        self._change()
        self._files.remove(path)

    def make_directory(self, path: str) -> None:
        self._change()
        self._files.make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._change()
        self._files.remove_directory(path)

    def close(self) -> None:
        self._files.close()

    def _look(self) -> None:
        if self.dead:
            raise Killed

    def _change(self) -> None:
        self._look()
        if self._left == 0:
            self.dead = True
            raise Killed
        if self._left is not None:
            self._left -= 1
        self.changes += 1


@dataclass(eq=False)
class File:
    """Pages by number. `kept` is what the disk has; `later` is what came after, and may or may not have got there."""

    size: int
    pages: dict[int, bytes] = field(default_factory=dict)
    kept: dict[int, bytes] = field(default_factory=dict)
    kept_size: int = 0
    later: list[tuple[int, bytes | None]] = field(default_factory=list)

    def put(self, page: int, content: bytes | None) -> None:
        self.later.append((page, content))
        if content is None:
            self.pages.pop(page, None)
        else:
            self.pages[page] = content

    def sync(self) -> None:
        self.kept, self.kept_size = dict(self.pages), self.size
        self.later.clear()

    def cut_power(self, chance: Random) -> None:
        """Each page is as it was at some moment since it was synced; the size is the old or the new one."""
        for page, content in self.later:
            if chance.random() < 0.5:
                if content is None:
                    self.kept.pop(page, None)
                else:
                    self.kept[page] = content
        self.size = chance.choice((self.kept_size, self.size))
        self.pages = {page: content for page, content in self.kept.items() if page * BLOCK < self.size}
        self.sync()


@dataclass(eq=False)
class Directory:
    """Names. A change of several at once, as a rename is, gets to the disk as one."""

    names: dict[str, File | Directory] = field(default_factory=dict)
    kept: dict[str, File | Directory] = field(default_factory=dict)
    later: list[dict[str, File | Directory | None]] = field(default_factory=list)

    def change(self, **names: File | Directory | None) -> None:
        self.later.append(names)
        _apply(self.names, names)

    def sync(self) -> None:
        self.kept = dict(self.names)
        self.later.clear()

    def cut_power(self, chance: Random) -> None:
        for names in self.later:
            if chance.random() < 0.5:
                _apply(self.kept, names)
        self.names = dict(self.kept)
        self.later.clear()
        for entry in self.names.values():
            entry.cut_power(chance)


class Forgetful:
    """A disk in memory. When the power goes, what was not synced is there or not, each piece by chance."""

    def __init__(self) -> None:
        self._root = Directory()

    def cut_power(self, chance: Random) -> None:
        self._root.cut_power(chance)

    def names(self, directory: str) -> list[str]:
        return sorted(self._directory(directory).names)

    def create(self, path: str, *, size: int) -> None:
        where, name = self._split(path)
        if name in where.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        where.change(**{name: File(size)})

    def read(self, path: str, *, offset: int, length: int) -> bytes:
        file = self._file(path)
        end = min(offset + length, file.size)
        whole = b"".join(file.pages.get(page, bytes(BLOCK)) for page in range(offset // BLOCK, -(-end // BLOCK)))
        return whole[offset % BLOCK :][: max(0, end - offset)]

    def write(self, path: str, *, offset: int, data: bytes) -> None:
        file = self._file(path)
        end = offset + len(data)
        for page in range(offset // BLOCK, -(-end // BLOCK)):
            content = bytearray(file.pages.get(page, bytes(BLOCK)))
            start, stop = max(offset, page * BLOCK), min(end, (page + 1) * BLOCK)
            content[start - page * BLOCK : stop - page * BLOCK] = data[start - offset : stop - offset]
            file.put(page, bytes(content))
        file.size = max(file.size, end)

    def punch(self, path: str, span: Span) -> None:
        for page in range(span.start // BLOCK, span.end // BLOCK):
            self._file(path).put(page, None)

    def extents(self, path: str) -> list[Span]:
        found: list[Span] = []
        for page in sorted(self._file(path).pages):
            if found and found[-1].end == page * BLOCK:
                found[-1] = Span(found[-1].start, (page + 1) * BLOCK)
            else:
                found.append(Span(page * BLOCK, (page + 1) * BLOCK))
        return found

    def allocated(self, path: str) -> int:
        return len(self._file(path).pages) * BLOCK

    def sync(self, path: str) -> None:
        self._find(path).sync()

    def link(self, source: str, target: str) -> None:
        where, name = self._split(target)
        if name in where.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        where.change(**{name: self._file(source)})

    def rename(self, source: str, target: str) -> None:
        (where, old), (_, new) = self._split(source), self._split(target)
        where.change(**{new: self._find(source), old: None})

    def remove(self, path: str) -> None:
        where, name = self._split(path)
        self._file(path)
        where.change(**{name: None})

    def make_directory(self, path: str) -> None:
        where, name = self._split(path)
        if name in where.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        where.change(**{name: Directory()})

    def remove_directory(self, path: str) -> None:
        where, name = self._split(path)
        if self._directory(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        where.change(**{name: None})

    def close(self) -> None:
        """Nothing is open."""

    def _split(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._directory(directory), name

    def _find(self, path: str) -> File | Directory:
        found: File | Directory = self._root
        for part in filter(None, path.split("/")):
            if not isinstance(found, Directory) or part not in found.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            found = found.names[part]
        return found

    def _file(self, path: str) -> File:
        found = self._find(path)
        assert isinstance(found, File)
        return found

    def _directory(self, path: str) -> Directory:
        found = self._find(path)
        assert isinstance(found, Directory)
        return found


def _apply(to: dict[str, File | Directory], names: dict[str, File | Directory | None]) -> None:
    for name, entry in names.items():
        if entry is None:
            to.pop(name, None)
        else:
            to[name] = entry
