"""Waiting for room in a ledger whose limit is a grant, and what that costs."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.simulated import ACCOUNT, BY_TEAM, CUPS, LEDGER, Server, creating, ledger
from ullage.errors import Retryable
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.service import batcher as line
from ullage.ledger.service.decisions import Verdict
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.folder import Folder
from ullage.ledger.service.limits import set_limits
from ullage.ledger.service.service import Service, decision
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView
from ullage.quantity import Quantity

BRIEF = Settings(request_timeout=5.0, expiry=7.0)
WHOLE = 100


def granted(limit: int, *, whole: int = WHOLE) -> Ledger:
    made = ledger(limit)
    grants = {ACCOUNT.account: {ACCOUNT.resource: str(whole)}}
    return replace(made, spec=replace(made.spec, grants=grants))


@asynccontextmanager
async def webhook(server: Server, *, watched: bool = True, leads: bool = False) -> AsyncIterator[Service]:
    clock = VirtualClock()
    cups = Cache(server, CUPS, clock=clock, jitter=lambda: 0.5)
    ledgers = Cache(server, LEDGERS, namespace=NAMESPACE, clock=clock, jitter=lambda: 0.5)
    view = KindView(cups, BY_TEAM, client=server, clock=clock)
    folder = Folder(server, Sources(view), ledgers, settings=BRIEF, clock=clock)
    works = [cups.run(), ledgers.run(), *([folder.controller().run()] if leads else [])]
    tasks = [asyncio.create_task(work) for work in works]
    await cups.synced.wait()
    await ledgers.synced.wait()
    known = ledgers if watched else None
    async with Service(server, Sources(view), settings=BRIEF, clock=clock, ledgers=known, jitter=lambda: 0.5) as service:
        yield service
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run(test: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Server())

    in_virtual_time(main())


def now() -> float:
    return asyncio.get_running_loop().time()


async def ask(service: Service, name: str, size: int = 1, *, seconds: float = 10.0, dry_run: bool = False) -> Verdict:
    return await service.decide(LEDGER, creating(name, size, dry_run=dry_run), deadline=now() + seconds)


async def grant(server: Server, limit: int) -> None:
    await set_limits(server, LEDGER, {ACCOUNT: Quantity.of(limit)}, number=server.ledger().spec.change + 1)


def wanted(server: Server) -> str:
    found = server.ledger().status.demand.get(ACCOUNT.account, {}).get(ACCOUNT.resource)
    return found.limit if found else ""


def writes(server: Server) -> int:
    return server.calls.count("PUT ledgers")


@pytest.mark.parametrize("watched", [pytest.param(True, id="with a watch"), pytest.param(False, id="without one")])
def test_who_is_short_of_a_grant_says_so_and_is_admitted_when_it_is_raised(watched: bool) -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0))
        async with webhook(server, watched=watched) as service:
            asked = asyncio.create_task(ask(service, "a", 3))
            await asyncio.sleep(2)
            assert (wanted(server), asked.done()) == ("3", False)
            await grant(server, 3)
            began = now()
            assert (await asked).allowed
            assert now() - began < 2 * line.LOOK
            assert wanted(server) == ""

    run(test)


@pytest.mark.parametrize(
    ("made", "size"),
    [
        pytest.param(ledger(2), 3, id="an ordinary limit"),
        pytest.param(granted(2, whole=10), 11, id="more than the whole"),
    ],
)
def test_where_nothing_can_come_the_answer_comes_at_once_and_asks_for_nothing(made: Ledger, size: int) -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, made)
        async with webhook(server) as service:
            began = now()
            verdict = await ask(service, "a", size)
            assert (verdict.allowed, verdict.more, wanted(server)) == (False, "", "")
            assert now() - began < 1

    run(test)


def test_who_waits_in_vain_is_answered_in_time_with_all_numbers() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(2))
        async with webhook(server) as service:
            began = now()
            verdict = await ask(service, "a", 3)
            assert 2.5 < now() - began < 4.0
            said = decision(verdict, next_step="ask the owner of the project").message
            assert said == (
                "does not fit: cups size: asked 3, used 0, reserved 0, limit 2, over by 1. More was asked for, and has not"
                " been granted in time: try again in a moment. Next: ask the owner of the project"
            )

    run(test)


def test_a_dry_run_waits_for_nothing_and_asks_for_nothing() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(2))
        async with webhook(server) as service:
            began = now()
            verdict = await ask(service, "a", 3, dry_run=True)
            assert (verdict.allowed, verdict.more, writes(server)) == (False, "possible", 0)
            assert now() - began < 1

    run(test)


def test_a_create_of_a_name_that_exists_is_told_so_at_once() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(1))
        server.cup("there", 1, uid="another")
        async with webhook(server) as service:
            began = now()
            verdict = await ask(service, "there", 1)
            assert verdict.existing
            assert now() - began < 1

    run(test)


def test_what_fits_is_admitted_while_others_wait_and_what_is_granted_goes_to_those_who_were_first() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(1))
        async with webhook(server) as service:
            asked = []
            for name in ("first", "second", "third"):
                asked.append(asyncio.create_task(ask(service, name, 2, seconds=20)))
                await asyncio.sleep(0.1)
            assert (await ask(service, "small", 1)).allowed
            for name, limit in (("first", 3), ("second", 5), ("third", 7)):
                await grant(server, limit)
                await asyncio.sleep(0.5)
                done = [one.done() for one in asked]
                assert sum(done) == limit // 2, name
                assert done == sorted(done, reverse=True), "in order of arrival"
            assert all(one.result().allowed for one in asked)

    run(test)


def test_many_who_wait_make_one_write_and_no_calls_while_nothing_changes() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0, whole=1000))
        async with webhook(server) as service:
            asked = [asyncio.create_task(ask(service, f"cup-{number}", seconds=15)) for number in range(64)]
            await asyncio.sleep(1.5)
            assert (wanted(server), writes(server)) == ("64", 1)
            before = len([call for call in server.calls if "ledgers" in call])
            await asyncio.sleep(1)
            assert len([call for call in server.calls if "ledgers" in call]) == before
            await grant(server, 64)
            assert all(verdict.allowed for verdict in await asyncio.gather(*asked))
            assert writes(server) == 2

    run(test)


def test_a_tenant_who_hammers_causes_a_write_a_second_at_most() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0, whole=10**6))
        async with webhook(server) as service:
            asked = []
            for number in range(1000):
                asked.append(asyncio.create_task(ask(service, f"cup-{number}", seconds=2)))
                await asyncio.sleep(0.01)
            await asyncio.gather(*asked)
            assert writes(server) <= 15, "in 12 seconds"

    run(test)


def test_no_more_wait_than_there_are_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "MOST_WAITING", 5)

    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0))
        async with webhook(server) as service:
            asked = [asyncio.create_task(ask(service, f"cup-{number}")) for number in range(12)]
            await asyncio.sleep(3)
            assert sum(one.done() for one in asked) == 7
            assert not any(one.result().allowed for one in asked if one.done())
            await grant(server, 12)
            await asyncio.sleep(1)
            assert sum(one.result().allowed for one in asked) == 5

    run(test)


def test_who_went_away_is_forgotten_and_takes_nothing() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0))
        async with webhook(server) as service:
            gone, stays = (asyncio.create_task(ask(service, name, 2)) for name in ("gone", "stays"))
            await asyncio.sleep(1)
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
            batcher = service._batchers[LEDGER]
            assert [one.charge.uid for one in batcher._line.asks()] == ["uid-stays"]
            await grant(server, 2)
            assert (await stays).allowed

    run(test)


def test_a_process_that_stops_answers_those_who_wait() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0))
        async with webhook(server) as service:
            asked = asyncio.create_task(ask(service, "a"))
            await asyncio.sleep(1)
        with pytest.raises(Retryable, match="this process stops"):
            await asked

    run(test)


def test_what_nobody_asks_for_any_more_is_forgotten_and_what_is_asked_for_stays() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0))
        async with webhook(server, leads=True) as service:
            for _ in range(12):
                assert not (await ask(service, "a", 3)).allowed
            first = server.ledger().status.demand[ACCOUNT.account][ACCOUNT.resource]
            assert (first.limit, first.since < first.asked) == ("3", True)
            await asyncio.sleep(150)
            assert wanted(server) == ""
            before = writes(server)
            await asyncio.sleep(300)
            assert writes(server) == before

    run(test)


def test_room_that_others_leave_goes_to_those_who_wait() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(3))
        server.cup("large", 3)
        async with webhook(server, leads=True) as service:
            await asyncio.sleep(2)
            asked = asyncio.create_task(ask(service, "a", 2))
            await asyncio.sleep(1)
            server.drop(CUPS, Key("team", "large"))
            assert (await asked).allowed

    run(test)


def test_growth_of_what_is_there_waits_too() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(2))
        made = server.cup("a", 2)
        async with webhook(server) as service:
            charge = dataclasses.replace(
                creating("a", 5), on_version=int(made.metadata.resource_version), old=creating("a", 2).now
            )
            asked = asyncio.create_task(service.decide(LEDGER, charge, deadline=now() + 10))
            await asyncio.sleep(1)
            assert wanted(server) == "5"
            await grant(server, 5)
            assert (await asked).allowed

    run(test)


def test_a_request_waits_for_a_grant_no_longer_than_is_set() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0))
        async with webhook(server) as service:
            began = now()
            verdict = await ask(service, "a", seconds=30.0)
            assert not verdict.allowed
            assert BRIEF.grant_wait <= now() - began < BRIEF.grant_wait + 1
            assert wanted(server) == "1"

    run(test)


def test_a_refusal_without_hope_is_told_at_once_and_the_demand_is_written() -> None:
    async def test(server: Server) -> None:
        server.put(LEDGERS, granted(0))
        async with webhook(server) as service:
            began = now()
            verdict = await service.decide(LEDGER, creating("a", 1), deadline=began + 30, hopeless=lambda refusal: True)
            assert not verdict.allowed
            assert now() - began < 1
            assert wanted(server) == "1"

    run(test)
