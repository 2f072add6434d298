"""The host of the embedded engines as a process: what it has acknowledged survives kill -9 at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.e2e.engine_process import EngineProcess
from ullage.engines.client.channels import Channels
from ullage.engines.client.host import HostClient
from ullage.errors import NotNow, Uncertain

pytestmark = pytest.mark.slow

BLOCK = 4096
BLOCKS = 256
SIZE = BLOCKS * BLOCK
KILLS = 6


@pytest.fixture
def process() -> Iterator[EngineProcess]:
    with tempfile.TemporaryDirectory(prefix="engine-") as directory:
        process = EngineProcess(Path(directory))
        yield process
        process.kill()


@asynccontextmanager
async def host_of(process: EngineProcess) -> AsyncIterator[HostClient]:
    """Once the client has found it again: after a failure it waits a moment before it tries anew."""
    channels = Channels()
    process.start()
    host = HostClient(channels, process.address)
    try:
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(Uncertain):
                    await host.list()
                    break
                await asyncio.sleep(0.05)
        yield host
    finally:
        await channels.close()


@dataclass(slots=True)
class Diary:
    """What was asked for, and what of it was acknowledged. A call without an answer leaves two possibilities."""

    blocks: dict[int, set[bytes]] = field(default_factory=dict)
    snapshots: dict[str, bool] = field(default_factory=dict)  # whether it was acknowledged
    marked: set[str] = field(default_factory=set)


async def busy(host: HostClient, diary: Diary, chance: Random) -> None:
    """Writes, snapshots, marks and purges until nobody answers any more."""
    engine = host.engine("vol")
    while True:
        number, fill = chance.randrange(BLOCKS), chance.randbytes(8) * (BLOCK // 8)
        diary.blocks.setdefault(number, {bytes(BLOCK)}).add(fill)
        await host.write("vol", offset=number * BLOCK, data=fill)
        diary.blocks[number] = {fill}
        what = chance.random()
        if what < 0.2 and len(diary.snapshots) < 200:
            name = f"s{len(diary.snapshots)}"
            diary.snapshots[name] = False
            await engine.snapshot(name)
            diary.snapshots[name] = True
        elif what < 0.3 and diary.snapshots:
            name = chance.choice(list(diary.snapshots))
            diary.marked.add(name)
            await engine.mark_removed(name)
        elif what < 0.35:
            with contextlib.suppress(NotNow):  # one is running
                await engine.purge()


async def check(host: HostClient, diary: Diary) -> None:
    for number, possible in diary.blocks.items():
        found = await host.read("vol", offset=number * BLOCK, length=BLOCK)
        assert found in possible, f"block {number}"
        diary.blocks[number] = {found}
    entries = (await host.engine("vol").snapshots()).entries
    kept = {name for name, acknowledged in diary.snapshots.items() if acknowledged and name not in diary.marked}
    assert kept <= entries.keys(), "an acknowledged snapshot is gone"
    assert entries.keys() - {"volume-head"} <= diary.snapshots.keys(), "there is one that nobody asked for"
    assert not any(entries[name].removed for name in kept)


@pytest.mark.timeout(180)
async def test_what_was_acknowledged_survives_kill_9(process: EngineProcess) -> None:
    chance, diary = Random(7), Diary()
    async with host_of(process) as host:
        await host.create("vol", size=SIZE)
        process.kill()
    for _ in range(KILLS):
        async with host_of(process) as host:
            await host.attach("vol")
            await check(host, diary)
            working = asyncio.create_task(busy(host, diary, chance))
            await asyncio.wait([working], timeout=chance.uniform(0.1, 0.6))
            process.kill()
            with pytest.raises(Uncertain):
                await working
    async with host_of(process) as host:
        await host.attach("vol")
        await check(host, diary)
    assert len(diary.blocks) > BLOCKS / 4
    assert sum(diary.snapshots.values()) > KILLS


async def test_it_ends_with_whoever_started_it(process: EngineProcess) -> None:
    async with host_of(process) as host:
        assert await host.list() == ()
        process.hang_up()
        assert await asyncio.to_thread(process.wait) == 0
