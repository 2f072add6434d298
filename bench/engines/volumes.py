"""Volumes that are made up: their objects, and engines that answer at once.

An engine answers from a rule and not from memory, so that what the process under measurement holds is the controllers' own.
It makes its answer anew each time, as a client does that decodes one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ullage.engines.chain import HEAD, Entry, Limits, PollResult, PurgeProgress

NS: Final = "longhorn-system"
GIB: Final = 1024**3
MIB: Final = 1024**2
CREATED: Final = "2026-01-01T00:00:05Z"
LABELS: Final = {"RecurringJob": "daily"}
PURGES: Final = {"tcp://10.0.0.1:10000": PurgeProgress(state="complete", progress=100)}
LIMITS: Final = Limits(max_count=250)

Called = Callable[[str, str], None]  # the volume, and which call


@dataclass(frozen=True, slots=True)
class Scale:
    """So many volumes, with so many snapshots each."""

    volumes: int
    snapshots: int

    @property
    def objects(self) -> int:
        return self.volumes * self.snapshots

    def names(self) -> list[str]:
        return [volume_name(number) for number in range(self.volumes)]


def volume_name(number: int) -> str:
    """As long as those of a provisioner."""
    return f"pvc-{number:08x}-0000-4000-8000-000000000000"


def engine_name(volume: str) -> str:
    return f"{volume}-e-0"


def snapshot_name(volume: str, number: int) -> str:
    """As long as those of a CSI snapshotter."""
    return f"snapshot-{volume[4:12]}-0000-4000-8000-{number:012x}"


def entries_of(volume: str, snapshots: int, taken: Iterable[str] = ()) -> dict[str, Entry]:
    """A plain chain, with what was taken later on top of it."""
    names = [*(snapshot_name(volume, number) for number in range(snapshots)), *taken, HEAD]
    parents, children = ["", *names[:-1]], [*names[1:], ""]
    return {name: _entry(name, parent, child) for name, parent, child in zip(names, parents, children, strict=True)}


class MadeUp:
    """The engine of one volume."""

    def __init__(self, volume: str, snapshots: int, called: Called) -> None:
        self._volume = volume
        self._snapshots = snapshots
        self._called = called
        self._taken: list[str] = []

    async def list(self) -> Mapping[str, Entry]:
        await self._answer("list")
        return entries_of(self._volume, self._snapshots, self._taken)

    async def poll(self) -> PollResult:
        return PollResult(await self.list(), await self.purge_status(), await self.limits())

    async def has(self, name: str) -> bool:
        return name in await self.list()

    async def create(self, name: str, labels: Mapping[str, str]) -> None:
        await self._answer("create")
        self._taken.append(name)

    async def mark_removed(self, name: str) -> None:
        raise NotImplementedError("nothing is removed in this benchmark")

    async def purge(self) -> None:
        raise NotImplementedError("nothing is removed in this benchmark")

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        await self._answer("purge_status")
        return dict(PURGES)

    async def limits(self) -> Limits:
        await self._answer("limits")
        return LIMITS

    async def set_limits(self, limits: Limits) -> None:
        raise NotImplementedError("no volume here has limits of its own")

    async def _answer(self, call: str) -> None:
        """Others have their turn, as while a real call is under way."""
        self._called(self._volume, call)
        await asyncio.sleep(0)


def _entry(name: str, parent: str, child: str) -> Entry:
    head = name == HEAD
    return Entry(
        name=name,
        parent=parent,
        children=frozenset((child,)) if child else frozenset(),
        user_created=not head,
        created=CREATED,
        size=MIB,
        labels={} if head else dict(LABELS),
    )


class MadeUpEngines:
    """Notes every look."""

    def __init__(self, scale: Scale) -> None:
        self._engines = {name: MadeUp(name, scale.snapshots, self._note) for name in scale.names()}
        self._unseen = set(self._engines)
        self.all_seen = asyncio.Event()
        self.looks = 0

    def of(self, volume: str) -> MadeUp:
        return self._engines[volume]

    def _note(self, volume: str, call: str) -> None:
        if call != "limits":  # the last call of a look
            return
        self.looks += 1
        self._unseen.discard(volume)
        if not self._unseen:
            self.all_seen.set()
