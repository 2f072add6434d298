"""The embedded engine against a real longhorn-engine, both driven by our client: the same operations, the same answers.

Where they differ, the real one is right. Growing a volume is left out: no frontend that works without iSCSI can do it in a
real engine.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.e2e.engine_operations import (
    BLOCK,
    SIZE,
    MaxSize,
    Operation,
    Purge,
    Revert,
    Side,
    Snapshot,
    SystemSnapshot,
    drawn,
    outcome,
)
from tests.e2e.longhorn_engine import PortTaken, RealEngine
from tools.peers.go_programs import locked
from tools.peers.longhorn.build import engine
from ullage.clock import SystemClock
from ullage.engines.chain import HEAD, Entry
from ullage.engines.client.channels import Channels
from ullage.engines.client.host import HostClient
from ullage.engines.client.longhorn import LonghornClient
from ullage.engines.client.messages import ReplicaState
from ullage.engines.local.server.attached import FRONTEND
from ullage.engines.local.server.server import serving

from .built import built

pytestmark = pytest.mark.slow

VOLUME = "vol"
OPERATIONS = 300
DATA_EVERY = 10  # operations


@dataclass(slots=True)
class Real:
    engine: RealEngine
    client: LonghornClient
    frontend: str = "rest"

    async def write(self, offset: int, data: bytes) -> None:
        await asyncio.to_thread(self.engine.write, offset, data)

    async def read(self, offset: int, length: int) -> bytes:
        return await asyncio.to_thread(self.engine.read, offset, length)


@dataclass(slots=True)
class Embedded:
    host: HostClient
    client: LonghornClient
    frontend: str = FRONTEND

    async def write(self, offset: int, data: bytes) -> None:
        await self.host.write(VOLUME, offset=offset, data=data)

    async def read(self, offset: int, length: int) -> bytes:
        return await self.host.read(VOLUME, offset=offset, length=length)


@pytest.fixture(scope="module")
def program() -> Path:
    return built(engine)


@pytest.fixture
def real(program: Path) -> Iterator[RealEngine]:
    with locked(Path(tempfile.gettempdir()) / f"ullage-rest-frontend-{os.getuid()}.lock"):  # other workers wait for the port
        try:
            running = RealEngine(program, volume=VOLUME, size=SIZE)
        except PortTaken as problem:
            pytest.skip(str(problem))
        yield running
        running.end()


@pytest.mark.timeout(400)
async def test_a_real_engine_clones_as_it_is_told(program: Path, real: RealEngine) -> None:
    copy = RealEngine(program, volume="copy", size=SIZE, frontend="socket")
    channels = Channels()
    try:
        source = LonghornClient(channels, real.address, volume=VOLUME)
        target = LonghornClient(channels, copy.address, volume="copy")
        real.write(3 * BLOCK, b"cloned" * BLOCK)
        await source.snapshot("one")
        real.write(0, b"later")
        await target.clone("one", source=source)
        (status,) = (await target.clone_status()).values()
        assert (status.cloning, status.progress, status.state, status.error) == (False, 100, "complete", "")
        assert (await target.snapshots()).chain == (HEAD, "one")
        expected = bytes(3 * BLOCK) + b"cloned" * BLOCK
        assert (copy.files / "volume-snap-one.img").read_bytes() == expected + bytes(SIZE - len(expected))
    finally:
        await channels.close()
        copy.end()


@pytest.mark.timeout(400)  # the first time includes the build
@pytest.mark.parametrize("seed", [pytest.param(seed, id=f"operations of seed {seed}") for seed in (1, 2)])
async def test_the_embedded_engine_answers_as_the_real_one(real: RealEngine, seed: int) -> None:
    operations = drawn(Random(seed), OPERATIONS)
    channels = Channels()
    with tempfile.TemporaryDirectory(prefix="engine-") as directory:
        async with serving(Path(directory) / "volumes", Path(directory) / "socket", clock=SystemClock()) as address:
            host = HostClient(channels, address)
            await host.create(VOLUME, size=SIZE)
            await host.attach(VOLUME)
            ours = Embedded(host, host.engine(VOLUME))
            theirs = Real(real, LonghornClient(channels, real.address, volume=VOLUME))
            try:
                seen = await compare(ours, theirs, operations)
            finally:
                await channels.close()
    # All of it happened often enough to mean something.
    assert seen["done"] > OPERATIONS / 2
    assert seen["refused"] > OPERATIONS / 20
    assert seen["merged"] > 5
    assert seen["thinned"] > 0
    assert seen["skipped"] < OPERATIONS / 50


async def compare(ours: Side, theirs: Side, operations: list[Operation]) -> Counter[str]:
    seen: Counter[str] = Counter()
    state, real = await ours.client.snapshots(), await theirs.client.snapshots()
    for number, operation in enumerate(operations):
        where, limit = f"operation {number}, {operation}", (await ours.client.state()).max_size
        assert limit == (await theirs.client.state()).max_size, where
        if over(operation, state, limit) != over(operation, real, limit):
            seen["skipped"] += 1  # sizes may differ by a block, so verdicts at the very edge may, too
            continue
        mine, other = await outcome(operation, ours), await outcome(operation, theirs)
        assert (mine.error, mine.reason) == (other.error, other.reason), f"{where}: {mine.words} | {other.words}"
        if not isinstance(operation, SystemSnapshot):  # a replica alone words its count limit in another way
            assert mine.words == other.words, where
        seen["refused" if mine.error else "done"] += 1
        before, state, real = state.entries, await ours.client.snapshots(), await theirs.client.snapshots()
        assert_alike(state, real, where)
        seen["merged"] += len(before.keys() - state.entries.keys())
        seen["thinned"] += sum(
            one.size < before[name].size for name, one in state.entries.items() if name in before and name != HEAD
        )
        if isinstance(operation, Revert | Purge) or number % DATA_EVERY == DATA_EVERY - 1:
            assert await ours.read(0, SIZE) == await theirs.read(0, SIZE), where
    return seen


def over(operation: Operation, state: ReplicaState, limit: int) -> bool:
    """Whether sizes alone speak against it."""
    if isinstance(operation, MaxSize):
        return operation.size < state.size_usage
    return isinstance(operation, Snapshot) and 0 < limit < state.size_usage + state.entries[HEAD].size


def assert_alike(ours: ReplicaState, theirs: ReplicaState, where: str) -> None:
    assert ours.chain == theirs.chain, where
    assert {name: shape(one) for name, one in ours.entries.items()} == {
        name: shape(one) for name, one in theirs.entries.items()
    }, where
    for name, one in ours.entries.items():
        assert abs(one.size - theirs.entries[name].size) <= BLOCK, f"{where}: size of {name}: {one} | {theirs.entries[name]}"
    assert ours.count_usage == theirs.count_usage, where
    assert abs(ours.size_usage - theirs.size_usage) <= BLOCK * len(ours.chain), where


def shape(entry: Entry) -> tuple[str, frozenset[str], bool, bool, dict[str, str]]:
    """All but the time, and the size, which is compared apart."""
    return entry.parent, entry.children, entry.removed, entry.user_created, dict(entry.labels)
