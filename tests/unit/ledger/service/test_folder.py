"""The background fold: when it writes, and when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import BY_TEAM, CUPS, LEDGER, STAMP, CupSpec, Server, creating, cup_key, ledger
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.ledger.metrics import Metrics
from ullage.ledger.service import folder
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.service import Service
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView

BRIEF = Settings(request_timeout=5.0, expiry=7.0)


@asynccontextmanager
async def leading(server: Server, metrics: Metrics | None = None, *, skew: float = 0.0) -> AsyncIterator[Service]:
    """A leader, and a webhook beside it."""
    clock = VirtualClock(skew=skew)
    cups = Cache(server, CUPS, clock=clock, jitter=lambda: 0.5)
    ledgers = Cache(server, LEDGERS, namespace=NAMESPACE, clock=clock, jitter=lambda: 0.5)
    view = KindView(cups, BY_TEAM, client=server, clock=clock)
    leader = Folder(server, Sources(view), ledgers, settings=BRIEF, clock=clock, metrics=metrics)
    tasks = [asyncio.create_task(work) for work in (cups.run(), ledgers.run(), leader.controller().run())]
    async with Service(server, Sources(view), settings=BRIEF, clock=clock, jitter=lambda: 0.5) as service:
        yield service
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def webhook(server: Server, *, skew: float = 0.0) -> AsyncIterator[Service]:
    clock = VirtualClock(skew=skew)
    cups = Cache(server, CUPS, clock=clock, jitter=lambda: 0.5)
    view = KindView(cups, BY_TEAM, client=server, clock=clock)
    reading = asyncio.create_task(cups.run())
    await cups.synced.wait()
    async with Service(server, Sources(view), settings=BRIEF, clock=clock, jitter=lambda: 0.5) as service:
        yield service
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


def run(test: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Server())

    in_virtual_time(main())


def writes(server: Server) -> int:
    return server.calls.count("PUT ledgers")


def test_a_system_at_rest_is_counted_and_then_written_no_more() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(10))
        async with leading(server) as service:
            for name in ("a", "b"):
                await service.decide(LEDGER, creating(name))
                server.cup(name)
            await asyncio.sleep(20)
            status = server.ledger().status
            assert (status.pending, counted(status.sums)) == ("", {CUPS.name: {"cups": {"size": "2"}}})
            before = writes(server)
            await asyncio.sleep(600)
            assert writes(server) == before

    run(test)


def test_a_ledger_that_is_booked_all_the_time_is_left_alone() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(1000))
        metrics = Metrics()
        async with leading(server, metrics) as service:
            await asyncio.sleep(10)
            before = metrics.registry.get_sample_value("ullage_ledger_folds_total")
            for number in range(100):
                await service.decide(LEDGER, creating(f"cup-{number}"))
                server.cup(f"cup-{number}")
                await asyncio.sleep(0.1)
            assert metrics.registry.get_sample_value("ullage_ledger_folds_total") == before
            assert counted(server.ledger().status.sums)[CUPS.name] == {"cups": {"size": "99"}}, "bookings fold"
            await asyncio.sleep(3)
            assert counted(server.ledger().status.sums)[CUPS.name] == {"cups": {"size": "100"}}

    run(test)


def test_objects_that_come_and_go_are_written_once_a_second_at_most() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(1000))
        async with leading(server):
            await asyncio.sleep(10)
            before = writes(server)
            for number in range(100):  # nobody books: they were there before their hook was, say
                server.cup(f"cup-{number}")
                await asyncio.sleep(0.1)
            assert 5 <= writes(server) - before <= 11
            await asyncio.sleep(2)
            assert counted(server.ledger().status.sums)[CUPS.name] == {"cups": {"size": "100"}}

    run(test)


def test_an_object_that_cannot_be_counted_stops_nobody_but_its_own_ledger() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(10))
        server.put(LEDGERS, replace(ledger(10), metadata=Meta(name="ns-other", namespace=NAMESPACE)))
        async with leading(server) as service:
            await service.decide(LEDGER, creating("a", 2))
            made = server.cup("a", 2)
            await asyncio.sleep(20)
            spoilt = server.put(CUPS, replace(made, metadata=replace(made.metadata, annotations={STAMP: "x"})))
            server.put(CUPS, replace(made, metadata=Meta(name="b", namespace="other", uid="uid-b")))
            await asyncio.sleep(20)
            assert state(server, LEDGER) == (f"these cannot be counted, nor their kind with them: {cup_key('a')}", "2")
            assert state(server, "ns-other") == ("everything is counted", "2")
            assert not (await service.decide(LEDGER, creating("c", 9))).allowed, "what was counted still counts"
            server.put(CUPS, replace(spoilt, metadata=made.metadata, spec=CupSpec(size=5)))
            await asyncio.sleep(20)
            assert state(server, LEDGER) == ("everything is counted", "5")

    run(test)


def state(server: Server, name: str) -> tuple[str, str]:
    """What a ledger says about its count, and what it has counted."""
    status = server.get(LEDGERS, Key(NAMESPACE, name)).status
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    return ready.message, counted(status.sums)[CUPS.name]["cups"]["size"]


def test_an_attempt_that_never_became_anything_goes_after_its_expiry() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(1))
        async with leading(server) as service:
            assert (await service.decide(LEDGER, creating("never"))).allowed
            await asyncio.sleep(6)
            assert server.ledger().status.pending, "it could still commit"
            await asyncio.sleep(6)
            assert server.ledger().status.pending == ""

    run(test)


def test_expiry_does_not_wait_for_the_watch_of_an_idle_kind() -> None:
    """A watch moves on with events and bookmarks only: a process that started later has a newer view for up to a minute."""

    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(1))
        async with leading(server):
            await asyncio.sleep(3)
            server.put(LEDGERS, replace(server.ledger()))  # anything that moves the API on, but not the cups
            async with webhook(server) as later:
                assert (await later.decide(LEDGER, creating("never"))).allowed
                assert server.ledger().status.observed[CUPS.name].view > 102, "newer than what the leader has"
            await asyncio.sleep(12)
            assert server.ledger().status.pending == ""

    run(test)


@pytest.mark.parametrize("change", ["created", "first limit on an account"])
def test_a_ledger_becomes_ready_once_counted_after_the_request_timeout(change: str) -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(None if change.startswith("first") else 10))
        async with leading(server):
            if change.startswith("first"):
                await asyncio.sleep(30)
                server.put(LEDGERS, replace(server.ledger(), spec=ledger(10).spec))
            await asyncio.sleep(3)
            assert said(server, "Ready") == "False"
            server.cup("keeps-the-watch-alive", 0)
            await asyncio.sleep(4)
            server.cup("keeps-the-watch-alive-too", 0)
            await asyncio.sleep(8)
            assert said(server, "Ready") == "True"

    run(test)


async def unseen_request(server: Server, *, skew: float) -> list[str]:
    """What `Ready` says, write by write, where a request that was admitted before the ledger was there commits as late as it
    may, and the clocks of whoever notices the ledger and whoever counts are apart."""
    said_then: list[str] = []
    server.committed = lambda: said_then.append(f"{said(server, 'Ready') or 'False'}, {len(server.all(CUPS))} there")
    server.put(LEDGERS, ledger(10))
    async with webhook(server, skew=-skew) as noticing:
        await noticing.decide(LEDGER, creating("first"))  # whose booking notices the limit, by its own clock
    async with leading(server, skew=skew):
        await asyncio.sleep(BRIEF.request_timeout - 0.5)
        server.cup("unseen")
        await asyncio.sleep(30)
    return said_then


@pytest.mark.parametrize(
    "skew",
    [
        pytest.param(0.0, id="clocks that agree"),
        pytest.param(3600.0, id="whoever counts is ahead of whoever noticed"),
        pytest.param(-3600.0, id="whoever counts is behind whoever noticed"),
    ],
)
def test_a_ledger_is_not_ready_before_the_last_request_that_it_did_not_see_is_counted(skew: float) -> None:
    async def test(server: Server) -> None:
        said_then = await unseen_request(server, skew=skew)
        assert "True, 0 there" not in said_then
        assert said_then[-1] == "True, 1 there"

    run(test)


def test_it_would_be_ready_too_early_without_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder.Folder, "_unseen_have_ended", lambda *_: True)

    async def test(server: Server) -> None:
        assert "True, 0 there" in await unseen_request(server, skew=0.0)

    run(test)


def test_a_ledger_of_a_kind_that_is_not_there_becomes_ready() -> None:
    async def test(server: Server) -> None:
        server.undefined.add(CUPS.name)
        server.put(LEDGERS, ledger(10))
        async with leading(server):
            await asyncio.sleep(60)
            assert said(server, "Ready") == "True"

    run(test)


def test_a_limit_below_what_is_used_shows() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(10))
        server.cup("big", 8)
        async with leading(server):
            await asyncio.sleep(3)
            assert said(server, "WithinLimits") == "True"
            server.put(LEDGERS, replace(server.ledger(), spec=ledger(5).spec))
            await asyncio.sleep(3)
            assert said(server, "WithinLimits") == "False"

    run(test)


def test_a_ledger_that_is_deleted_is_forgotten() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, ledger(10))
        async with leading(server):
            await asyncio.sleep(3)
            server.drop(LEDGERS, Key(NAMESPACE, LEDGER))
            server.cup("a")
            await asyncio.sleep(3)
            assert server.get(LEDGERS, Key(NAMESPACE, LEDGER)) is None

    run(test)


def said(server: Server, type: str) -> str:
    found = find_condition(server.ledger().status.conditions, type)
    return found.status if found else ""
