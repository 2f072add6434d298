"""Random operations on a volume, each a value that can be carried out on any engine, and what came of it.

Names and limits are drawn from small pools, so that engines have reason to refuse. What is drawn depends on nothing but the
chance that is handed in: two engines get the same operations, whatever they answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Protocol

from ullage.engines.chain import HEAD
from ullage.engines.client.errors import Reason
from ullage.engines.client.longhorn import LonghornClient
from ullage.errors import Impossible, NotNow, Uncertain

BLOCK = 4096
SIZE = 4 << 20  # bytes of the volume
WRITTEN = 64  # blocks at its beginning where writes begin: few enough to overlap
_NAMES = tuple(f"s{number}" for number in range(12))
_CREATED = datetime(2026, 1, 1, tzinfo=UTC)


class Side(Protocol):
    """An engine with one volume, its frontend up."""

    client: LonghornClient
    frontend: str

    async def write(self, offset: int, data: bytes) -> None: ...

    async def read(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """Done, or why not. Numbers of bytes are left out of the words: engines may differ there by a block."""

    error: str = ""
    reason: Reason | None = None
    words: str = ""


DONE = Outcome()


class Operation(Protocol):
    async def apply(self, side: Side) -> None: ...


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    length: int
    seed: int

    async def apply(self, side: Side) -> None:
        await side.write(self.offset, Random(self.seed).randbytes(self.length))


@dataclass(frozen=True, slots=True)
class Zero:
    offset: int
    length: int

    async def apply(self, side: Side) -> None:
        await side.write(self.offset, bytes(self.length))


@dataclass(frozen=True, slots=True)
class Snapshot:
    name: str
    label: str = ""

    async def apply(self, side: Side) -> None:
        await side.client.snapshot(self.name, labels={"made": self.label} if self.label else {})


@dataclass(frozen=True, slots=True)
class SystemSnapshot:
    name: str

    async def apply(self, side: Side) -> None:
        await side.client.system_snapshot(self.name, created=_CREATED)


@dataclass(frozen=True, slots=True)
class Mark:
    name: str

    async def apply(self, side: Side) -> None:
        await side.client.mark_removed(self.name)


@dataclass(frozen=True, slots=True)
class MarkParent:
    """Of the head: the one that no purge can take away, only thin out."""

    async def apply(self, side: Side) -> None:
        parent = (await side.client.snapshots()).entries[HEAD].parent
        if parent:
            await side.client.mark_removed(parent)


@dataclass(frozen=True, slots=True)
class Purge:
    async def apply(self, side: Side) -> None:
        await side.client.purge()
        async with asyncio.timeout(60):
            while any(status.purging for status in (await side.client.purge_status()).values()):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        states = {(status.state, status.error) for status in (await side.client.purge_status()).values()}
        assert states == {("complete", "")}, states


@dataclass(frozen=True, slots=True)
class Revert:
    name: str
    frontend: bool  # whether it is left up, which is refused

    async def apply(self, side: Side) -> None:
        if self.frontend:
            await side.client.revert(self.name)
            return
        await side.client.shut_frontend()
        try:
            await side.client.revert(self.name)
        finally:
            await side.client.start_frontend(side.frontend)


@dataclass(frozen=True, slots=True)
class MaxCount:
    count: int

    async def apply(self, side: Side) -> None:
        await side.client.set_max_count(self.count)


@dataclass(frozen=True, slots=True)
class MaxSize:
    size: int

    async def apply(self, side: Side) -> None:
        await side.client.set_max_size(self.size)


@dataclass(frozen=True, slots=True)
class Shrink:
    size: int

    async def apply(self, side: Side) -> None:
        await side.client.expand(self.size)


def drawn(chance: Random, count: int) -> list[Operation]:
    return [chance.choices(_DRAWERS, weights=_WEIGHTS)[0](chance) for _ in range(count)]


async def outcome(operation: Operation, side: Side) -> Outcome:
    try:
        await operation.apply(side)
    except (NotNow, Impossible, Uncertain) as error:
        return Outcome(type(error).__name__, Reason(error.reason), _words(error))
    return DONE


def _words(error: NotNow | Impossible | Uncertain) -> str:
    """What the engine said, without the path that it took through a real one."""
    said = str(error).rpartition("desc = ")[2].rpartition(": ")[2]
    return re.sub(r"-?\b(0|\d{4,})\b", "N", said)


def _write(chance: Random) -> Operation:
    length = chance.choice((1, 512, BLOCK, BLOCK, 2 * BLOCK, chance.randrange(1, 48 * BLOCK)))
    offset = chance.randrange(WRITTEN) * BLOCK + (chance.randrange(BLOCK) if chance.random() < 0.3 else 0)
    return Write(offset, length, chance.randrange(1 << 30))


def _zero(chance: Random) -> Operation:
    return Zero(chance.randrange(WRITTEN) * BLOCK, chance.randrange(1, 4) * BLOCK)


def _name(chance: Random) -> str:
    return chance.choice(_NAMES)


# What is drawn, and how often.
_TABLE: tuple[tuple[int, Callable[[Random], Operation]], ...] = (
    (30, _write),
    (4, _zero),
    (24, lambda chance: Snapshot(_name(chance), chance.choice(("", "by hand")))),
    (5, lambda chance: SystemSnapshot(f"sys-{_name(chance)}")),
    (14, lambda chance: Mark(_name(chance))),
    (5, lambda chance: MarkParent()),
    (8, lambda chance: Purge()),
    (8, lambda chance: Revert(_name(chance), frontend=chance.random() < 0.2)),
    (3, lambda chance: MaxCount(chance.choice((0, 2, 4, 6, 250)))),
    (4, lambda chance: MaxCount(250)),
    (2, lambda chance: MaxSize(chance.choice((0, 32, 64, 128)) * BLOCK)),
    (4, lambda chance: MaxSize(chance.choice((0, 2 * SIZE)))),
    (1, lambda chance: Shrink(chance.choice((BLOCK, BLOCK + 1)))),
)
_WEIGHTS = [weight for weight, _ in _TABLE]
_DRAWERS = [drawer for _, drawer in _TABLE]
