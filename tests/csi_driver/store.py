"""What the driver has, in files: a directory for each volume and each snapshot, with its data and a description.

Everything is prepared aside and renamed into place, and renamed away before it is removed. So after kill -9 a thing is either
there, whole, or not at all. (Not after a power cut: nothing here waits for the disk.)
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from .copies import copy_file, copy_tree

DESCRIPTION = "description.json"
DATA = "data"


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    capacity: int  # bytes
    block: bool = False  # its data is one sparse file, else a directory
    from_snapshot: str = ""
    from_volume: str = ""
    published: dict[str, bool] = {}  # by node: whether only for reading


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    volume: str
    size: int  # bytes: those of a volume made from it
    created: int  # nanoseconds since 1970
    ready: int  # the same: when its upload is done
    block: bool = False
    group: str = ""  # the id of the group that it is a member of


class Group(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    volumes: list[str]
    members: list[str]  # ids of snapshots
    created: int  # nanoseconds since 1970
    block: bool = False
    size: int = 0


T = TypeVar("T", Volume, Snapshot, Group)


class Shelf(Generic[T]):
    """All volumes, all snapshots, or all groups of these."""

    def __init__(self, place: Path, staging: Path, type_: type[T]) -> None:
        self.place = place
        self.staging = staging
        place.mkdir(parents=True, exist_ok=True)
        self._items: dict[str, T] = {item.id: item for item in read_shelf(place, type_)}
        self._names = {item.name: item.id for item in self._items.values()}

    def get(self, id_: str) -> T | None:
        return self._items.get(id_)

    def named(self, name: str) -> T | None:
        return self._items.get(self._names.get(name, ""))

    def all(self) -> list[T]:
        """In an order that stays, for paging."""
        return sorted(self._items.values(), key=lambda item: item.id)

    def data(self, id_: str) -> Path:
        return self.place / id_ / DATA

    def put(self, item: T, source: Path | None) -> None:
        """A new item with a copy of this data, or empty."""
        aside = self.staging / uuid.uuid4().hex
        aside.mkdir()
        try:
            fill(aside / DATA, source, block=item.block, size=item.capacity if isinstance(item, Volume) else item.size)
            (aside / DESCRIPTION).write_bytes(msgspec.json.encode(item))
            aside.rename(self.place / item.id)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        self._items[item.id] = item
        self._names[item.name] = item.id

    def change(self, item: T) -> None:
        aside = self.staging / uuid.uuid4().hex
        aside.write_bytes(msgspec.json.encode(item))
        aside.rename(self.place / item.id / DESCRIPTION)
        self._items[item.id] = item

    def remove(self, id_: str) -> None:
        aside = self.staging / uuid.uuid4().hex
        (self.place / id_).rename(aside)
        del self._names[self._items.pop(id_).name]
        shutil.rmtree(aside)


class Store:
    def __init__(self, root: Path) -> None:
        staging = root / "staging"
        shutil.rmtree(staging, ignore_errors=True)  # what a killed process was at
        staging.mkdir(parents=True)
        self.volumes = Shelf(root / "volumes", staging, Volume)
        self.snapshots = Shelf(root / "snapshots", staging, Snapshot)
        self.groups = Shelf(root / "groups", staging, Group)
        groups = {one.id for one in self.groups.all()}
        for one in self.snapshots.all():  # members of a group that was never made whole
            if one.group and one.group not in groups:
                self.snapshots.remove(one.id)


def read_shelf(place: Path, type_: type[T]) -> list[T]:
    """What is there, also for tests that look from outside while it changes."""
    items = []
    for path in sorted(place.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            items.append(msgspec.json.decode((path / DESCRIPTION).read_bytes(), type=type_))
    return items


def fill(data: Path, source: Path | None, *, block: bool, size: int) -> None:
    if not block:
        data.mkdir() if source is None else copy_tree(source, data)
        return
    data.touch() if source is None else copy_file(source, data)
    grow(data, size)


def grow(data: Path, size: int) -> None:
    with data.open("r+b") as file:
        file.truncate(max(size, data.stat().st_size))
