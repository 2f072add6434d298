"""What a look at an engine costs beyond the controllers: a host of embedded engines in a process of its own, asked over its
socket, as many engines at a time as the monitor asks."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.apiserver.memory import resident_megabytes
from bench.engines.volumes import LABELS, Scale, snapshot_name
from bench.ledger.meters import cpu_seconds
from ullage.engines.client.connection import HostConnection, address_of
from ullage.engines.client.interface import EngineClient
from ullage.engines.settings import Settings
from ullage.errors import NotNow, Uncertain

SIZE: Final = 64 * 1024**2
PIECE: Final = 4096  # bytes written before each snapshot
ROUNDS: Final = 20
START_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Looks at all volumes of a host. Times are of one look."""

    scale: Scale
    way: str
    looks: int
    spent: float  # seconds until the next is done
    ours: float  # seconds of CPU
    host: float  # seconds of CPU
    rss: float  # MB, of the host


async def measured(directory: Path, scale: Scale) -> list[Cost]:
    async with _host(directory) as pid, HostConnection(address_of(directory / "socket")) as connection:
        await _served(connection)
        await _fill(connection, scale)
        engines = [connection.of(name) for name in scale.names()]
        return [await _cost(engines, look, way, scale=scale, pid=pid) for way, look in WAYS.items()]


async def _five(engine: EngineClient) -> None:
    await engine.list()
    await engine.purge_status()
    await engine.limits()


WAYS: Final[dict[str, Callable[[EngineClient], Awaitable[object]]]] = {
    "in Longhorn's five calls": _five,
    "in one call of our own": lambda engine: engine.poll(),
}


async def _cost(
    engines: list[EngineClient], look: Callable[[EngineClient], Awaitable[object]], way: str, *, scale: Scale, pid: int
) -> Cost:
    await _everybody(engines, look)  # connections, caches
    begun, ours, host = time.monotonic(), time.process_time(), _cpu(pid)
    for _ in range(ROUNDS):
        await _everybody(engines, look)
    looks = ROUNDS * len(engines)
    return Cost(
        scale,
        way,
        looks,
        spent=(time.monotonic() - begun) / looks,
        ours=(time.process_time() - ours) / looks,
        host=(_cpu(pid) - host) / looks,
        rss=resident_megabytes([pid]),
    )


async def _everybody(engines: list[EngineClient], look: Callable[[EngineClient], Awaitable[object]]) -> None:
    waiting = iter(engines)

    async def work() -> None:
        for engine in waiting:
            await look(engine)

    await asyncio.gather(*(work() for _ in range(Settings().pollers)))


def _cpu(pid: int) -> float:
    return cpu_seconds({"host": [pid]})["host"]


@contextlib.asynccontextmanager
async def _host(directory: Path) -> AsyncIterator[int]:
    command = [sys.executable, "-m", "ullage", "engine", "--volumes", str(directory / "volumes")]
    command += ["--socket", str(directory / "socket"), "--log-level", "warning"]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


async def _served(connection: HostConnection) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            with contextlib.suppress(NotNow, Uncertain):
                await connection.host.list()
                return
            await asyncio.sleep(0.1)


async def _fill(connection: HostConnection, scale: Scale) -> None:
    waiting = iter(scale.names())

    async def work() -> None:
        for name in waiting:
            await connection.host.create(name, size=SIZE)
            await connection.host.attach(name)
            engine = connection.of(name)
            for number in range(scale.snapshots):
                await connection.host.write(name, offset=number * PIECE, data=b"x" * PIECE)
                await engine.create(snapshot_name(name, number), LABELS)

    await asyncio.gather(*(work() for _ in range(8)))
