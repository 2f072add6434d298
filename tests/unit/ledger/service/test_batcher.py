"""How often one process writes a ledger: as soon as it may while it is alone, with room for others while it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock
from tests.unit.ledger.service.test_service import ask, process, simulated
from tests.unit.ledger.simulated import Server, creating, ledger
from ullage.kube.cache.cache import Cache
from ullage.kube.processor_time import paid_by
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.service.service import Service

WRITE = 0.1  # seconds that a write takes where the API is slow


@asynccontextmanager
async def watching(server: Server) -> AsyncIterator[Service]:
    """A process that sees what others write, with a ledger that it has written before."""
    server.put(LEDGERS, ledger(None))
    ledgers = Cache(server, LEDGERS, namespace=NAMESPACE, clock=VirtualClock(), jitter=lambda: 0.5)
    reading = asyncio.create_task(ledgers.run())
    await ledgers.synced.wait()
    async with process(server, ledgers=ledgers) as service:
        await ask(service, creating("warm"))
        await asyncio.sleep(2.0)
        server.calls.clear()
        yield service
    reading.cancel()


def somebody_writes(server: Server) -> None:
    server.put(LEDGERS, replace(server.ledger(), status=server.ledger().status))


async def steadily(service: Service, *, seconds: float) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds / 0.01)):
            group.create_task(ask(service, creating(f"cup-{number}")))
            await asyncio.sleep(0.01)


@simulated
async def test_alone_the_next_write_begins_after_the_shortest_pause_however_long_one_takes(server: Server) -> None:
    async with watching(server) as service:
        server.latency = lambda: WRITE / 2
        await steadily(service, seconds=2.2)
    assert 19 <= server.calls.count("PUT ledgers") <= 22, "2.2 s of writes that take 0.1 s, and 0.01 s between two"


@simulated
async def test_among_others_a_process_waits_twice_as_long_as_its_write_took(server: Server) -> None:
    async with watching(server) as service:
        server.latency = lambda: WRITE / 2

        async def others() -> None:
            for _ in range(5):
                somebody_writes(server)
                await asyncio.sleep(0.6)

        elsewhere = asyncio.create_task(others())
        await steadily(service, seconds=2.2)
        await elsewhere
    assert server.calls.count("PUT ledgers") <= 12, "2.2 s of writes that take 0.1 s, 0.2 s between two, and a few conflicts"


@simulated
async def test_after_a_conflict_the_newer_state_comes_from_the_watch_and_is_not_read(server: Server) -> None:
    async with watching(server) as service:
        somebody_writes(server)  # the watch brings it in 5 ms, which is too late for the first write
        [verdict] = await ask(service, creating("one"))
    assert verdict.allowed
    assert server.calls == ["PUT ledgers", "PUT ledgers"]


@simulated
async def test_after_a_conflict_a_state_that_the_watch_has_not_brought_is_read(server: Server) -> None:
    async with watching(server) as service:
        server.watch_lag = lambda: 5.0
        somebody_writes(server)
        [verdict] = await ask(service, creating("one"))
    assert verdict.allowed
    assert server.calls == ["PUT ledgers", "GET ledgers", "PUT ledgers"]


@simulated
async def test_what_a_round_takes_is_paid_by_all_who_are_decided_in_it(server: Server) -> None:
    paid: dict[str, float] = {}

    async def asked(service: Service, who: str, *, pays: bool) -> None:
        def spend(seconds: float) -> None:
            paid[who] = paid.get(who, 0.0) + seconds

        with paid_by(spend) if pays else nullcontext():
            await ask(service, creating(who))

    async with watching(server) as service:
        await asyncio.gather(*(asked(service, who, pays=who != "free") for who in ("a", "b", "free")))
        assert server.calls.count("PUT ledgers") == 1
    assert paid.keys() == {"a", "b"}
    assert paid["a"] == paid["b"] > 0
