"""An API server that is restored from a backup: ours, with its ledgers, or another cluster's."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.simulated import ACCOUNT, BY_TEAM, CUPS, LEDGER, Server, creating, ledger
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.ledger.anew import Memory, went_back
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.book import Charge
from ullage.ledger.codec import book_of
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView

BRIEF = Settings(request_timeout=5.0, expiry=7.0, expiry_elsewhere=7.0)
ELSEWHERE = f"{CUPS.name}/east"


async def nobody_was(cluster: str) -> bool:
    """Removed."""
    return False


class Process:
    """A webhook; with a leader beside it, or not. `cups` may be in another cluster than the ledgers."""

    def __init__(self, server: Server, cups: Server | None = None) -> None:
        clock, cluster = VirtualClock(), "" if cups is None else "east"
        self.cups = Cache(cups or server, CUPS, clock=clock, jitter=lambda: 0.5)
        self.ledgers = Cache(server, LEDGERS, namespace=NAMESPACE, clock=clock, jitter=lambda: 0.5)
        view = KindView(self.cups, BY_TEAM, client=cups or server, cluster=cluster, clock=clock)
        sources = Sources(view)
        if cluster:
            sources.count_elsewhere(CUPS.name, nobody_was, complete=lambda: True)
            sources.place(cluster, [LEDGER])
        self.folder = Folder(server, sources, self.ledgers, settings=BRIEF, clock=clock)
        self.service = Service(server, sources, settings=BRIEF, clock=clock, ledgers=self.ledgers, jitter=lambda: 0.5)

    @asynccontextmanager
    async def running(self, *, leads: bool = True) -> AsyncIterator[Service]:
        works = [self.cups.run(), self.ledgers.run(), *([self.folder.controller().run()] if leads else [])]
        tasks = [asyncio.create_task(work) for work in works]
        async with self.service as service:
            await self.cups.synced.wait()
            yield service
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def run(test: Callable[[Server, Server], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Server(), Server())

    in_virtual_time(main())


def ready(server: Server) -> tuple[str, str, str]:
    found = find_condition(server.ledger().status.conditions, "Ready")
    assert found is not None
    return found.status, found.reason, found.message


def counted(server: Server, source: str) -> str:
    return str(book_of(server.ledger(), now=VirtualClock().now()).observed[source].sums[ACCOUNT])


def test_the_count_of_another_cluster_that_was_restored_goes_back() -> None:
    async def test(server: Server, east: Server) -> None:
        server.put(LEDGERS, ledger(10))
        east.cup("a", 3)
        east.back_up()
        async with Process(server, east).running() as service:
            east.cup("b", 4)
            await asyncio.sleep(20)
            assert (counted(server, ELSEWHERE), ready(server)[0]) == ("7", "True")
            view = server.ledger().status.observed[ELSEWHERE].view
            told: list[tuple[str, str, int]] = []
            server.committed = lambda: told.append((*ready(server)[:2], int(counted(server, ELSEWHERE))))
            east.restore()
            await asyncio.sleep(3)
            assert told == [("False", "Restored", 7), ("False", "Restored", 3)], "what was counted stays until it is listed"
            message = ready(server)[2]
            assert message.startswith(f"restored from a backup: the API server of {ELSEWHERE}, which was noticed at ")
            assert 0 < server.ledger().status.observed[ELSEWHERE].view < view
            assert server.ledger().status.epoch == 1
            await asyncio.sleep(20)
            assert ready(server)[:2] == ("True", "Exact")
            assert (await service.decide(LEDGER, creating("c", 4))).allowed

    run(test)


def test_attempts_stay_until_the_cluster_was_listed_anew() -> None:
    async def test(server: Server, east: Server) -> None:
        server.put(LEDGERS, ledger(10))
        east.back_up()
        async with Process(server, east).running() as service:
            await asyncio.sleep(20)
            assert (await service.decide(LEDGER, in_the_east("never", 8))).allowed
            east.cup("x")
            await asyncio.sleep(1)
            east.restore()
            await asyncio.sleep(2)
            assert server.ledger().status.pending
            assert not (await service.decide(LEDGER, in_the_east("c", 4))).allowed
            await asyncio.sleep(30)
            assert (server.ledger().status.pending, ready(server)[0]) == ("", "True")

    run(test)


def in_the_east(name: str, size: int) -> Charge:
    charge = creating(name, size)
    return dataclasses.replace(charge, key=charge.key.replace("//", "/east/"))


@pytest.mark.parametrize("leads", [pytest.param(True, id="by the leader"), pytest.param(False, id="by a webhook")])
def test_our_own_api_restored_is_noticed(leads: bool) -> None:
    async def test(server: Server, _: Server) -> None:
        server.put(LEDGERS, ledger(10))
        process = Process(server)
        async with process.running(leads=leads) as service:
            assert (await service.decide(LEDGER, creating("a", 2))).allowed
            server.cup("a", 2)
            await asyncio.sleep(20)
            server.back_up()
            assert (await service.decide(LEDGER, creating("b", 5))).allowed
            server.cup("b", 5)
            await asyncio.sleep(3)
            server.restore()
            await asyncio.sleep(3)
            if not leads:
                await service.decide(LEDGER, creating("c", 1))
            status, reason, message = ready(server)
            assert (status, reason) == ("False", "Restored")
            assert f"the API server of {CUPS.name}, which" in message
            assert server.ledger().status.epoch == 1
        async with Process(server).running():
            await asyncio.sleep(40)
            assert (ready(server)[1], counted(server, CUPS.name)) == ("Exact", "2")

    run(test)


def test_three_who_notice_begin_one_epoch() -> None:
    async def test(server: Server, _: Server) -> None:
        server.put(LEDGERS, ledger(100))
        leader, one, two = Process(server), Process(server), Process(server)
        async with leader.running() as first, one.running(leads=False) as second, two.running(leads=False) as third:
            services = (first, second, third)
            await asyncio.sleep(20)
            server.back_up()
            for number, service in enumerate(services):
                await service.decide(LEDGER, creating(f"before-{number}"))
            server.restore()
            await asyncio.gather(*(one.decide(LEDGER, creating(f"after-{n}")) for n, one in enumerate(services)))
            await asyncio.sleep(30)
            assert server.ledger().status.epoch == 1
            assert ready(server)[1] == "Exact"

    run(test)


def test_a_cache_that_is_behind_is_not_taken_for_a_backup() -> None:
    async def test(server: Server, _: Server) -> None:
        server.put(LEDGERS, ledger(100))
        async with Process(server).running():
            await asyncio.sleep(10)
            server.watch_lag = lambda: 30.0
            async with Process(server).running(leads=False) as later:
                for number in range(5):
                    await later.decide(LEDGER, creating(f"cup-{number}"))
                    server.cup(f"cup-{number}")
                    await asyncio.sleep(3)
            await asyncio.sleep(300)
            assert server.ledger().status.epoch == 0

    run(test)


def test_everything_is_listed_anew_once_for_all_ledgers() -> None:
    async def test(server: Server, _: Server) -> None:
        for number in range(50):
            made = server.put(LEDGERS, replace(ledger(10), metadata=Meta(name=f"ns-{number}", namespace=NAMESPACE)))
            server.put(LEDGERS, replace(made, status=LedgerStatus(epoch=1, epochs={CUPS.name: 1})))
        process = Process(server)
        async with process.running(leads=False) as service:
            await asyncio.sleep(5)
            for number in range(50):
                await service.decide(f"ns-{number}", creating("a"))
            assert process.cups.readings <= 2
            assert server.get(LEDGERS, Key(NAMESPACE, "ns-49")).status.observed, "and it is counted"

    run(test)


SEEN = Ledger(
    metadata=Meta(name="l", uid="uid-1", resource_version="50"),
    spec=LedgerSpec(change=5),
    status=LedgerStatus(epoch=2, last_booking="2026-01-01T00:00:05.000000Z"),
)


def ledger_at(version: int, *, uid: str = "uid-1", change: int = 5, **status: object) -> Ledger:
    meta = replace(SEEN.metadata, resource_version=str(version), uid=uid)
    return replace(SEEN, metadata=meta, spec=LedgerSpec(change=change), status=replace(SEEN.status, **status))


@pytest.mark.parametrize(
    ("found", "is_older"),
    [
        pytest.param(ledger_at(50), False, id="the very same"),
        pytest.param(ledger_at(51, change=6), False, id="a later one"),
        pytest.param(ledger_at(49), True, id="an older version"),
        pytest.param(ledger_at(49, epoch=3), False, id="an older version, and somebody has noticed already"),
        pytest.param(ledger_at(60, change=4), True, id="a version that was passed again, with an older change"),
        pytest.param(ledger_at(60, epoch=1), True, id="a version that was passed again, of an older epoch"),
        pytest.param(
            ledger_at(60, last_booking="2026-01-01T00:00:04.000000Z"), True, id="a version that was passed again, less booked"
        ),
        pytest.param(ledger_at(60, uid="uid-2", change=0, epoch=0), False, id="deleted and made anew"),
    ],
)
def test_which_ledgers_are_older_than_one_that_was_seen(found: Ledger, is_older: bool) -> None:
    assert went_back(found, Memory.of(SEEN)) is is_older
    assert not went_back(found, None)
