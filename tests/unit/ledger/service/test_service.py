"""The service on a simulated API: what it says, when, and how many calls that takes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import BY_TEAM, CUPS, LEDGER, Cup, CupSpec, Server, creating, cup_key, ledger, takes
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Forbidden, Unavailable
from ullage.ledger.api import LEDGERS, NAMESPACE, LedgerStatus
from ullage.ledger.book import MOST_ATTEMPTS, MOST_GROWN, Charge
from ullage.ledger.metrics import Metrics
from ullage.ledger.packing.pending import decode
from ullage.ledger.service import decisions
from ullage.ledger.service.batcher import Stopping
from ullage.ledger.service.decisions import Verdict
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.service import BudgetSpent, Crowded, NotCounted, Service, decision
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView
from ullage.times import timestamp

BRIEF = Settings(request_timeout=5.0, expiry=7.0)


@asynccontextmanager
async def process(server: Any, **rest: Any) -> AsyncIterator[Service]:
    """A service with a view of its own, as a webhook has it."""
    clock = VirtualClock()
    cache = Cache(server, CUPS, clock=clock, jitter=lambda: 0.5)
    view = KindView(cache, BY_TEAM, client=server, clock=clock)
    reading = asyncio.create_task(cache.run())
    await cache.synced.wait()
    settings = rest.pop("settings", BRIEF)
    async with Service(server, Sources(view), settings=settings, clock=clock, jitter=lambda: 0.5, **rest) as service:
        yield service
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


def simulated(test: Callable[[Server], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        await test(Server())

    def wrapped() -> None:
        in_virtual_time(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


async def ask(service: Service, *charges: Charge, within: float = 60.0) -> list[Verdict]:
    deadline = asyncio.get_running_loop().time() + within
    return list(await asyncio.gather(*(service.decide(LEDGER, charge, deadline=deadline) for charge in charges)))


def pending(server: Server) -> list[str]:
    found = decode(server.ledger().status.pending, ledger=LEDGER)
    return sorted(uid for slot in found.values() for uid in slot.attempts)


@simulated
async def test_many_that_ask_together_are_decided_in_order_and_written_once(server: Server) -> None:
    server.put(LEDGERS, ledger(57))
    metrics = Metrics()
    async with process(server, metrics=metrics) as service:
        first = asyncio.create_task(ask(service, creating("first")))
        await asyncio.sleep(0.003)
        verdicts = await ask(service, *(creating(f"cup-{number}") for number in range(199)))
        assert (await first)[0].allowed
    assert [verdict.allowed for verdict in verdicts] == [True] * 56 + [False] * 143
    assert len(pending(server)) == 57
    assert server.calls.count("PUT ledgers") == 1, "all of them arrived before the first read was back"
    assert metrics.registry.get_sample_value("ullage_ledger_batch_size_sum") == 200
    assert metrics.registry.get_sample_value("ullage_ledger_decisions_total", {"result": "refused"}) == 143


@simulated
async def test_those_who_come_during_a_write_share_the_next_one_after_a_pause(server: Server) -> None:
    server.put(LEDGERS, ledger(None))
    async with process(server) as service:
        await ask(service, creating("warm"))
        server.calls.clear()
        began = asyncio.get_running_loop().time()
        asked = []
        for number in range(100):
            asked.append(asyncio.create_task(ask(service, creating(f"cup-{number}"))))
            await asyncio.sleep(0.001)
        await asyncio.gather(*asked)
        took = asyncio.get_running_loop().time() - began
    assert server.calls.count("GET ledgers") == 0, "the answer to a write is the state that the next one begins with"
    assert server.calls.count("PUT ledgers") <= took / (0.004 + 0.010) + 1


@simulated
async def test_no_ledger_is_said_only_after_a_read_that_began_after_the_question(server: Server) -> None:
    async with process(server) as service:
        early = asyncio.create_task(ask(service, creating("early")))
        await asyncio.sleep(0.0025)  # its read has been answered with 404 by the server, and is on its way back
        server.put(LEDGERS, ledger(0))
        [late] = await ask(service, creating("late"))
        assert (await early)[0].unlimited
        assert not late.allowed, "the ledger was there when it was asked for"
    assert server.calls.count("GET ledgers") == 2


@simulated
async def test_it_does_not_fit_is_said_only_after_a_look_that_began_after_the_question(server: Server) -> None:
    server.put(LEDGERS, ledger(1))
    async with process(server) as service:
        assert (await ask(service, creating("one")))[0].allowed
        server.put(LEDGERS, replace(server.ledger(), spec=ledger(2).spec))  # by somebody else; the copy here still says 1
        assert (await ask(service, creating("two")))[0].allowed
        assert not (await ask(service, creating("three")))[0].allowed


@simulated
async def test_a_conflict_is_decided_again_on_what_is_there(server: Server) -> None:
    server.put(LEDGERS, ledger(10))
    async with process(server) as left, process(server) as right:
        both = await asyncio.gather(
            ask(left, *(creating(f"left-{number}") for number in range(8))),
            ask(right, *(creating(f"right-{number}") for number in range(8))),
        )
    assert sum(verdict.allowed for verdicts in both for verdict in verdicts) == 10
    assert len(pending(server)) == 10


@pytest.mark.parametrize("moment", [pytest.param("before", id="not done"), pytest.param("after", id="done")])
def test_a_lost_answer_is_looked_for_and_costs_nothing_twice(moment: str) -> None:
    async def main() -> None:
        server = Server()
        server.put(LEDGERS, ledger(1))
        lost = iter([True])

        def fault(when: str) -> None:
            if when == moment and next(lost, False):
                raise Unavailable("the connection broke", sent=True)

        server.fault = fault
        async with process(server) as service:
            assert (await ask(service, creating("one")))[0].allowed
            assert not (await ask(service, creating("two")))[0].allowed
        assert pending(server) == ["uid-one"]

    in_virtual_time(main())


@simulated
async def test_a_spent_budget_is_try_again_and_never_yes(server: Server) -> None:
    server.put(LEDGERS, ledger(1))
    server.latency = lambda: 3.0
    async with process(server) as service:
        began = asyncio.get_running_loop().time()
        with pytest.raises(BudgetSpent, match=r"ledger ns-team gave no answer within 2\.0 s"):
            await ask(service, creating("one"), within=2.0)
        assert asyncio.get_running_loop().time() == pytest.approx(began + 2.0)


@simulated
async def test_an_api_that_is_away_is_named_in_the_answer(server: Server) -> None:
    server.put(LEDGERS, ledger(1))

    def away(moment: str) -> None:
        raise Unavailable("PUT: no connection", sent=False)

    server.fault = away
    async with process(server) as service:
        with pytest.raises(BudgetSpent, match="no connection"):
            await ask(service, creating("one"), within=2.0)
        assert len(server.calls) < 20, "it does not ask in a tight loop"
        server.fault = lambda moment: None
        assert (await ask(service, creating("one")))[0].allowed


@simulated
async def test_who_gave_up_is_not_booked_by_a_later_write(server: Server) -> None:
    server.put(LEDGERS, ledger(5))
    async with process(server) as service:
        waiting = asyncio.create_task(ask(service, creating("gone")))
        await asyncio.sleep(0.001)
        waiting.cancel()
        await ask(service, creating("there"))
    assert pending(server) == ["uid-there"]


@simulated
async def test_a_dry_run_is_decided_and_writes_nothing(server: Server) -> None:
    server.put(LEDGERS, ledger(1))
    async with process(server) as service:
        [fits, does_not] = await ask(service, creating("a", dry_run=True), creating("b", 2, dry_run=True))
    assert fits.allowed
    assert not does_not.allowed
    assert "PUT ledgers" not in server.calls


@simulated
async def test_what_does_not_grow_asks_nobody(server: Server) -> None:
    server.put(LEDGERS, ledger(0))
    async with process(server) as service:
        shrinking = Charge(key=cup_key("a"), uid="u", on_version=5, now=takes(1), old=takes(3))
        assert (await ask(service, shrinking))[0].allowed
    assert server.calls == []


@simulated
async def test_a_retry_of_the_same_name_does_not_pay_twice_even_at_the_limit(server: Server) -> None:
    server.put(LEDGERS, ledger(1))
    async with process(server) as service:
        assert (await ask(service, creating("one", uid="first")))[0].allowed
        assert (await ask(service, creating("one", uid="second")))[0].allowed
        assert not (await ask(service, creating("other")))[0].allowed


@simulated
async def test_a_booking_folds_what_its_process_has_seen(server: Server) -> None:
    server.put(LEDGERS, ledger(3))
    async with process(server) as service:
        await ask(service, creating("one"))
        server.cup("one")
        await asyncio.sleep(0.1)
        await ask(service, creating("two"))
    assert pending(server) == ["uid-two"]
    assert counted(server.ledger().status.sums)[CUPS.name] == {"cups": {"size": "1"}}


@simulated
async def test_on_a_busy_ledger_bookings_settle_what_is_past_expiry(server: Server) -> None:
    """Nobody else may have a chance to write it."""
    server.put(LEDGERS, ledger(2))
    async with process(server) as service:
        await ask(service, creating("never"))  # admitted, and then refused by another webhook
        for _ in range(12):
            await ask(service, creating("busy"))  # a client that tries the same name again and again
            await asyncio.sleep(0.9)
        assert (await ask(service, creating("third")))[0].allowed
    assert "uid-never" not in pending(server)


@simulated
async def test_a_crowded_ledger_says_try_again_until_something_is_counted(server: Server) -> None:
    server.put(LEDGERS, ledger(None))
    metrics = Metrics()
    async with process(server, metrics=metrics) as service:
        await ask(service, *(creating(f"cup-{number}") for number in range(MOST_ATTEMPTS)))
        with pytest.raises(Crowded, match=r"ledger ns-team: 2000 requests have room reserved .* since \d{4}-\d\d-\d\dT"):
            await ask(service, creating("late"))
        assert (await ask(service, creating("cup-7", 2)))[0].allowed, "one that is held already may be asked for again"
        assert len(pending(server)) == MOST_ATTEMPTS
        server.cup("cup-0")
        await asyncio.sleep(0.1)
        assert (await ask(service, creating("late")))[0].allowed
    assert metrics.registry.get_sample_value("ullage_ledger_decisions_total", {"result": "again"}) == 1


@simulated
async def test_who_creates_a_name_that_exists_again_and_again_locks_nobody_out(server: Server) -> None:
    server.put(LEDGERS, ledger(10))
    server.cup("there")
    async with process(server) as service:
        for number in range(4):
            await ask(service, *(creating("there", uid=f"{number}-{index}") for index in range(MOST_ATTEMPTS)))
        assert (await ask(service, creating("other", 8)))[0].allowed
        assert pending(server) == ["uid-other"]
        server.cup("other", 8)
        await asyncio.sleep(BRIEF.expiry + 1)
        await ask(service, creating("next", 1))
        await asyncio.sleep(1.0)
        await ask(service, creating("next", 1))
    assert pending(server) == ["uid-next"]


@simulated
async def test_at_a_crowded_ledger_a_dry_run_is_told_what_the_request_is_told(server: Server) -> None:
    server.put(LEDGERS, ledger(None))
    async with process(server) as service:
        await ask(service, *(creating(f"cup-{number}") for number in range(MOST_ATTEMPTS)))
        with pytest.raises(Crowded):
            await ask(service, creating("late", dry_run=True))


@simulated
async def test_a_dry_run_is_decided_on_what_others_have_left(server: Server) -> None:
    """As the request would be, which is written on the latest state."""
    server.put(LEDGERS, ledger(2))
    async with process(server) as left, process(server) as right:
        assert (await ask(left, creating("one")))[0].allowed
        assert (await ask(right, creating("two")))[0].allowed
        assert not (await ask(left, creating("three", dry_run=True)))[0].allowed


@simulated
async def test_a_crowd_that_never_becomes_anything_goes_by_its_expiry(server: Server) -> None:
    server.put(LEDGERS, ledger(None))
    async with process(server) as service:
        await ask(service, *(creating(f"cup-{number}") for number in range(MOST_ATTEMPTS)))
        for _ in range(10):
            with contextlib.suppress(Crowded):
                await ask(service, creating("late"))
            await asyncio.sleep(1.0)
    assert pending(server) == ["uid-late"]


@pytest.mark.slow
@simulated
async def test_a_thousand_stamps_that_grow_at_once_are_all_booked_a_few_at_a_time(server: Server) -> None:
    """As controllers write them: told to try again, they do. However much tenants hold, it is not in the way."""
    server.put(LEDGERS, ledger(None))
    stored = [server.cup(f"old-{number}") for number in range(1000)]
    held = []
    server.committed = lambda: held.append(len(pending(server)))

    async def stamp(cup: Cup, service: Service) -> None:
        version = int(cup.metadata.resource_version)
        key, uid = cup_key(cup.metadata.name), cup.metadata.uid
        grown = Charge(key=key, uid=uid, on_version=version, now=takes(2), old=takes(1), past_limit=True)
        while True:
            with contextlib.suppress(Crowded):
                await ask(service, grown)
                break
            await asyncio.sleep(1.0)
        server.put(CUPS, replace(cup, spec=CupSpec(size=2)))

    with patch.object(decisions, "MOST_ATTEMPTS", 10):
        async with process(server) as service:
            await ask(service, *(creating(f"new-{number}") for number in range(10)))
            with pytest.raises(Crowded):
                await ask(service, creating("late"))
            await asyncio.gather(*(stamp(cup, service) for cup in stored))
    assert max(held) == 10 + MOST_GROWN
    assert {cup.spec.size for cup in server.all(CUPS)} == {2}


@simulated
async def test_a_ledger_that_cannot_be_read_refuses_with_its_name(server: Server) -> None:
    server.put(LEDGERS, replace(ledger(5), status=LedgerStatus(pending="2garbage")))
    async with process(server) as service:
        with pytest.raises(Exception, match=r"ns-team.*ullage ledger rebuild ns-team"):
            await ask(service, creating("one"))


@simulated
async def test_an_object_of_less_than_nothing_makes_no_room(server: Server) -> None:
    """One of -90, made while no webhook looked."""
    server.put(LEDGERS, ledger(10))
    server.cup("odd", -90)
    async with process(server) as service:
        assert not (await ask(service, creating("large", 100)))[0].allowed
        with pytest.raises(NotCounted, match=f"ledger {LEDGER}: .* not counted yet: {CUPS.name}"):
            await ask(service, creating("small", 10))
        server.drop(CUPS, Key("team", "odd"))
        await asyncio.sleep(0.1)
        assert (await ask(service, creating("small", 10)))[0].allowed


@simulated
async def test_a_missing_right_is_told_and_not_retried(server: Server) -> None:
    server.put(LEDGERS, ledger(5))

    def forbidden(moment: str) -> None:
        raise Forbidden("may not update ledgers", code=403)

    server.fault = forbidden
    async with process(server) as service:
        with pytest.raises(Forbidden):
            await ask(service, creating("one"))


@simulated
async def test_what_a_watch_brings_spares_the_conflict(server: Server) -> None:
    server.put(LEDGERS, ledger(10))
    clock = VirtualClock()
    ledgers = Cache(server, LEDGERS, namespace=NAMESPACE, clock=clock, jitter=lambda: 0.5)
    reading = asyncio.create_task(ledgers.run())
    await ledgers.synced.wait()
    async with process(server, ledgers=ledgers) as left, process(server) as right:
        await ask(left, creating("one"))
        await ask(right, creating("two"))
        await asyncio.sleep(0.1)
        server.calls.clear()
        await ask(left, creating("three"))
    assert server.calls == ["PUT ledgers"]
    reading.cancel()


@simulated
async def test_a_service_that_stops_tells_those_in_line_to_try_again(server: Server) -> None:
    server.put(LEDGERS, ledger(10))
    async with process(server) as service:
        waiting = asyncio.create_task(ask(service, creating("one")))
        await asyncio.sleep(0.001)
    with pytest.raises(Stopping):
        await waiting
    with pytest.raises(Stopping):
        await ask(service, creating("two"))


@simulated
async def test_a_ledger_that_is_deleted_meanwhile_is_no_ledger(server: Server) -> None:
    server.put(LEDGERS, ledger(1))
    async with process(server) as service:
        assert (await ask(service, creating("one")))[0].allowed
        server.drop(LEDGERS, Key(NAMESPACE, LEDGER))
        assert (await ask(service, creating("two")))[0].unlimited


def test_a_refusal_is_403_with_every_number_and_the_next_step() -> None:
    async def main() -> None:
        server = Server()
        server.put(LEDGERS, ledger(1))
        async with process(server) as service:
            [verdict] = await ask(service, creating("big", 3))
        answer = decision(verdict, next_step="ullage ledger describe ns-team")
        assert (answer.allowed, answer.code) == (False, 403)
        assert answer.message == (
            "does not fit: cups size: asked 3, used 0, reserved 0, limit 1, over by 2. Next: ullage ledger describe ns-team"
        )

    in_virtual_time(main())
    assert decision(Verdict()).allowed


def changing(name: str, now: int, *, old: int) -> Charge:
    return Charge(key=cup_key(name), uid=f"uid-{name}", on_version=101, now=takes(now), old=takes(old))


@pytest.mark.parametrize(
    ("charge", "answer", "reads"),
    [
        pytest.param(
            creating("there", uid="another"), (409, "AlreadyExists"), 1, id="a create of a name that exists and does not fit"
        ),
        pytest.param(
            creating("there", uid="another", dry_run=True), (409, "AlreadyExists"), 1, id="a dry run of such a create"
        ),
        pytest.param(creating("new"), (403, "Forbidden"), 1, id="a create of a name that is free"),
        pytest.param(creating("gone"), (403, "Forbidden"), 1, id="a create of a name that was seen and is free now"),
        pytest.param(changing("there", 2, old=1), (403, "Forbidden"), 0, id="an update is never a create"),
    ],
)
def test_a_create_of_a_name_that_exists_is_told_so_where_it_does_not_fit(
    charge: Charge, answer: tuple[int, str], reads: int
) -> None:
    """As it would be without us: whoever creates a thing or else gets it goes on working at the limit."""

    async def main() -> None:
        server = Server()
        server.put(LEDGERS, ledger(2))
        server.cup("there")
        server.cup("gone")
        async with process(server) as service:
            server.watch_lag = lambda: 60.0
            server.drop(CUPS, Key("team", "gone"))
            server.put(LEDGERS, replace(server.ledger(), spec=ledger(1).spec))
            [verdict] = await ask(service, charge)
        said = decision(verdict, next_step="delete a cup")
        assert not said.allowed
        assert (said.code, said.reason) == answer
        if said.code == 409:
            assert said.message == 'cups.test.ullage.io "there" already exists'
        else:
            assert said.message.startswith("does not fit: cups size: asked 1, used 2, reserved 0, limit 1")
        assert server.calls.count("GET cups") == reads

    in_virtual_time(main())


@simulated
async def test_a_create_of_a_name_that_exists_books_nothing_where_it_fits_too(server: Server) -> None:
    server.put(LEDGERS, ledger(2))
    server.cup("there")
    async with process(server) as service:
        [verdict] = await ask(service, creating("there", uid="another"))
    assert (decision(verdict).code, decision(verdict).reason) == (409, "AlreadyExists")
    assert pending(server) == []


@simulated
async def test_a_create_of_a_name_that_exists_is_booked_where_the_api_cannot_tell(server: Server) -> None:
    """Its turn may come after that object is gone."""
    server.put(LEDGERS, ledger(2))
    server.cup("there")
    async with process(server) as service:
        server.slow = {CUPS.name: 300.0}
        assert (await ask(service, creating("there", uid="another"), within=4.0))[0].allowed
    assert pending(server) == ["another"]


@simulated
async def test_a_create_is_booked_at_once_where_a_cache_still_shows_what_is_gone(server: Server) -> None:
    server.put(LEDGERS, ledger(2))
    server.cup("there")
    async with process(server) as service:
        server.watch_lag = lambda: 5.0
        server.drop(CUPS, Key("team", "there"))
        began = asyncio.get_running_loop().time()
        assert (await ask(service, creating("there", uid="another")))[0].allowed
        assert asyncio.get_running_loop().time() < began + 0.5
    assert pending(server) == ["another"]


@pytest.mark.parametrize("lag", [0.005, 5.0])
def test_of_two_creates_of_one_name_the_second_is_told_what_became_of_the_first(lag: float) -> None:
    """And holds no room, whether or not a cache shows the first by then."""

    async def main() -> None:
        server = Server()
        server.watch_lag = lambda: lag
        server.put(LEDGERS, ledger(2))
        async with process(server) as service:
            assert (await ask(service, creating("cup", uid="first")))[0].allowed
            second = asyncio.create_task(ask(service, creating("cup", uid="second")))
            await asyncio.sleep(0.1)
            server.cup("cup", uid="first")
            [verdict] = await second
            assert (decision(verdict).code, decision(verdict).reason) == (409, "AlreadyExists")
        assert pending(server) in (["first"], [])

    in_virtual_time(main())


@simulated
async def test_a_create_is_booked_though_nothing_came_of_another_of_its_name(server: Server) -> None:
    """It is waited for, for a second; a try after that does not wait."""
    server.put(LEDGERS, ledger(1))
    async with process(server) as service:
        assert (await ask(service, creating("cup", uid="vetoed")))[0].allowed
        for uid, longest in (("second", 1.5), ("third", 0.5)):
            began = asyncio.get_running_loop().time()
            assert (await ask(service, creating("cup", uid=uid)))[0].allowed
            assert asyncio.get_running_loop().time() < began + longest
            await asyncio.sleep(1.5)
    assert pending(server) == [""]


@simulated
async def test_a_refusal_says_what_is_held_and_until_when(server: Server) -> None:
    server.put(LEDGERS, ledger(3))
    server.cup("there", 1)
    async with process(server) as service:
        await ask(service, creating("first", 1))
        await asyncio.sleep(2)
        await ask(service, creating("second", 1))
        [held] = await ask(service, creating("third", 2))
        [more] = await ask(service, creating("fourth", 3))
    assert held.refusal is not None
    (over,) = held.refusal.over
    booked = max(
        one.booked for slot in decode(server.ledger().status.pending, ledger="").values() for one in slot.attempts.values()
    )
    assert over.until is not None
    assert over.until.timestamp() == pytest.approx(booked / 1000 + BRIEF.expiry)
    end = timestamp(over.until)
    said = decision(held, next_step="delete a cup").message
    assert said.startswith("does not fit: cups size: asked 2, used 1, reserved 2, limit 3, over by 2. Held for requests")
    assert f"requests that were not seen yet, until {end} at the latest: cups size 2. Next" in said
    assert said.endswith(f"Next: try again after {end}: it fits if nothing has come of those requests")
    assert decision(more, next_step="delete a cup").message.endswith("Next: delete a cup"), "it would not fit without them"


@simulated
async def test_time_in_which_the_api_does_not_answer_does_not_count_towards_expiry(server: Server) -> None:
    """A write that was under way when it went silent may be stored when it goes on."""
    server.put(LEDGERS, ledger(1))
    async with process(server) as service:
        assert (await ask(service, creating("late", uid="late")))[0].allowed
        await asyncio.sleep(2)
        server.cut_off()
        await asyncio.sleep(30)
        server.come_back()
        for _ in range(int(BRIEF.expiry / 0.25)):
            assert not (await ask(service, creating("other", uid="other")))[0].allowed
            await asyncio.sleep(0.25)
        for _ in range(200):
            if (await ask(service, creating("other", uid="other")))[0].allowed:
                return
            await asyncio.sleep(0.25)
    raise AssertionError("it is held for ever")


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda server: server.unserved.add(CUPS.name), id="that proves nothing"),
        pytest.param(lambda server: setattr(server, "slow", {CUPS.name: 300.0}), id="that does not come"),
    ],
)
def test_a_read_is_not_believed(trouble: Callable[[Server], object]) -> None:
    """Then it does not fit, which is true as well, and is said in time."""

    async def main() -> None:
        server = Server()
        server.put(LEDGERS, ledger(1))
        server.cup("there")
        async with process(server) as service:
            assert not (await ask(service, creating("other")))[0].allowed  # it was counted
            trouble(server)
            began = asyncio.get_running_loop().time()
            [verdict] = await ask(service, creating("there", uid="another"), within=4.0)
            assert asyncio.get_running_loop().time() < began + 3.0
        assert decision(verdict).code == 403

    in_virtual_time(main())


def test_an_expiry_that_is_no_longer_than_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="could still commit"):
        Settings(request_timeout=60, expiry=60)


# --- the first count --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lag", "within"),
    [pytest.param(0.2, 1.0, id="a cache that lags for a moment"), pytest.param(5.0, 20.0, id="a cache that lags for seconds")],
)
def test_what_was_made_before_the_ledger_counts_under_its_first_limit(lag: float, within: float) -> None:
    """Though the cache of whoever decides does not show it yet: growth is told to try again meanwhile."""

    async def main() -> None:
        server = Server()
        server.watch_lag = lambda: lag
        async with process(server) as service:
            assert (await ask(service, creating("before", 2)))[0].unlimited
            server.cup("before", 2)
            server.put(LEDGERS, ledger(2))
            end = asyncio.get_running_loop().time() + within
            refused = False
            while not refused:
                assert asyncio.get_running_loop().time() < end, "nobody counts what is there"
                with contextlib.suppress(NotCounted):
                    verdict = (await ask(service, creating("after", 2)))[0]
                    assert not verdict.allowed, "2 of 2 are there already"
                    refused = True

    in_virtual_time(main())


@simulated
async def test_growth_is_to_be_tried_again_while_what_is_there_cannot_be_listed(server: Server) -> None:
    server.put(LEDGERS, ledger(2))
    async with process(server) as service:
        server.unserved.add(CUPS.name)
        with pytest.raises(NotCounted, match="these were not counted yet: cups"):
            await ask(service, creating("a"))
        server.unserved.clear()
        await asyncio.sleep(1.0)
        assert (await ask(service, creating("a")))[0].allowed
