"""Setting limits on a simulated API: among others who set them, on ledgers that are booked on all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.service.test_service import ask, process, simulated
from tests.unit.ledger.simulated import LEDGER, Server, creating, cup_key, ledger, takes
from ullage.kube.errors import Invalid, Unavailable
from ullage.ledger.amounts import parse_limits
from ullage.ledger.api import LEDGERS, LedgerSpec
from ullage.ledger.book import Charge
from ullage.ledger.limits import unreached
from ullage.ledger.service.limits import Interleaved, Outdated, set_limits

Written = dict[str, dict[str, str]]
FIVE: Written = {"cups": {"size": "5"}}


def cups(size: int) -> Any:
    return parse_limits({"cups": {"size": str(size)}})


@pytest.mark.parametrize(
    ("there", "number", "about", "after", "calls"),
    [
        pytest.param(None, 0, "", LedgerSpec(limits=FIVE, change=1), "GET POST PATCH", id="a first limit makes the ledger"),
        pytest.param(None, 8, "", LedgerSpec(limits=FIVE, change=8), "GET POST PATCH", id="a first grant does"),
        pytest.param(
            LedgerSpec(limits={"cups": {"size": "9"}, "vials": {"size": "1"}}, change=3),
            0,
            "",
            LedgerSpec(limits=FIVE, change=4),
            "GET PATCH",
            id="the next number",
        ),
        pytest.param(
            LedgerSpec(limits={"cups": {"size": "9"}, "vials": {"size": "1"}}, change=3),
            9,
            "cups",
            LedgerSpec(limits={**FIVE, "vials": {"size": "1"}}, change=9),
            "GET PATCH",
            id="a given number, about one account",
        ),
        pytest.param(LedgerSpec(limits=FIVE, change=3), 0, "", LedgerSpec(limits=FIVE, change=3), "GET", id="nothing to do"),
        pytest.param(LedgerSpec(limits=FIVE, change=3), 3, "", LedgerSpec(limits=FIVE, change=3), "GET", id="done already"),
        pytest.param(
            LedgerSpec(limits=FIVE, change=3), 4, "", LedgerSpec(limits=FIVE, change=4), "GET PATCH", id="a number alone"
        ),
    ],
)
def test_limits_are_set(there: LedgerSpec | None, number: int, about: str, after: LedgerSpec, calls: str) -> None:
    async def run() -> None:
        server = Server()
        if there is not None:
            server.put(LEDGERS, replace(ledger(None), spec=there))
        written = await set_limits(server, LEDGER, cups(5), number=number, about=about)
        assert server.ledger().spec == written.spec == after
        assert [call.split()[0] for call in server.calls] == calls.split()

    in_virtual_time(run())


@simulated
async def test_whoever_was_held_up_is_told(server: Server) -> None:
    server.put(LEDGERS, replace(ledger(5), spec=LedgerSpec(limits=FIVE, change=7)))
    for number in (6, 7):
        with pytest.raises(Outdated, match=f"ledger {LEDGER}: change {number} comes too late, it has change 7 already"):
            await set_limits(server, LEDGER, cups(9), number=number)
    assert server.ledger().spec == LedgerSpec(limits=FIVE, change=7)


@simulated
async def test_whoever_is_held_up_between_a_look_and_a_write_is_refused_by_the_api(server: Server) -> None:
    server.put(LEDGERS, ledger(5))
    stalled = asyncio.create_task(set_limits(_Slow(server), LEDGER, cups(9), number=6))
    await asyncio.sleep(0.1)
    await set_limits(server, LEDGER, cups(3), number=7)
    with pytest.raises(Outdated, match="change 6 comes too late, it has change 7 already"):
        await stalled
    assert server.ledger().spec == LedgerSpec(limits={"cups": {"size": "3"}}, change=7)


def test_without_the_rule_of_the_kind_an_old_limit_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower limit was reached, and the difference given away: what is admitted after that overshoots."""

    async def run() -> tuple[str, int]:
        server = Server()
        server.put(LEDGERS, ledger(5))
        stalled = asyncio.create_task(set_limits(_Slow(server), LEDGER, cups(9), number=6))
        await asyncio.sleep(0.1)
        await set_limits(server, LEDGER, cups(3), number=7)
        await asyncio.gather(stalled, return_exceptions=True)
        async with process(server) as service:
            verdicts = await ask(service, *(creating(f"cup-{number}") for number in range(9)))
        return unreached(server.ledger(), 7), sum(verdict.allowed for verdict in verdicts)

    assert in_virtual_time(run())[1] == 3
    monkeypatch.setattr(Server, "may_follow", lambda *_: True)
    assert in_virtual_time(run()) == ("change 7 has not come: the limits are those of change 6", 9)


class _Slow:
    """A client whose patches take a second to arrive."""

    def __init__(self, server: Server) -> None:
        self.find, self.create, self._server = server.find, server.create, server

    async def patch(self, *args: Any, **rest: Any) -> Any:
        await asyncio.sleep(1)
        return await self._server.patch(*args, **rest)


@simulated
async def test_of_two_who_take_the_next_number_the_second_looks_again(server: Server) -> None:
    server.put(LEDGERS, ledger(5))
    limits = parse_limits({"vials": {"size": "2"}})
    await asyncio.gather(set_limits(server, LEDGER, cups(9), about="cups"), set_limits(server, LEDGER, limits, about="vials"))
    assert server.ledger().spec == LedgerSpec(limits={"cups": {"size": "9"}, "vials": {"size": "2"}}, change=2)


@simulated
async def test_two_who_make_one_ledger_make_one(server: Server) -> None:
    limits = parse_limits({"vials": {"size": "2"}})
    await asyncio.gather(set_limits(server, LEDGER, cups(9), about="cups"), set_limits(server, LEDGER, limits, about="vials"))
    assert server.ledger().spec == LedgerSpec(limits={"cups": {"size": "9"}, "vials": {"size": "2"}}, change=2)


@simulated
async def test_limits_of_an_earlier_change_that_stay_are_told(server: Server) -> None:
    server.put(LEDGERS, ledger(5))
    later = asyncio.create_task(set_limits(_Slow(server), LEDGER, cups(9), number=7))
    await asyncio.sleep(0.1)
    await set_limits(server, LEDGER, parse_limits({"vials": {"size": "2"}}), number=6)
    with pytest.raises(Interleaved, match="another change came before change 7, and some of its limits stayed"):
        await later
    assert (await set_limits(server, LEDGER, cups(9), number=8)).spec == LedgerSpec(limits={"cups": {"size": "9"}}, change=8)


@simulated
async def test_a_refusal_that_is_not_about_the_number_is_raised(server: Server) -> None:
    server.put(LEDGERS, ledger(5))

    def bad(moment: str) -> None:
        raise Invalid("an account is written like snapshots/vm/db", code=422)

    server.fault = bad
    with pytest.raises(Invalid, match="an account is written like"):
        await set_limits(server, LEDGER, cups(9))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_answer_that_was_lost_is_asked_for_again(moment: str) -> None:
    async def run() -> None:
        server = Server()
        server.put(LEDGERS, ledger(5))
        server.fault = _once(moment)
        with pytest.raises(Unavailable):
            await set_limits(server, LEDGER, cups(9), number=4)
        assert (await set_limits(server, LEDGER, cups(9), number=4)).spec == LedgerSpec(
            limits={"cups": {"size": "9"}}, change=4
        )

    in_virtual_time(run())


def _once(when: str) -> Callable[[str], None]:
    left = [when]

    def fault(moment: str) -> None:
        if moment in left:
            left.remove(moment)
            raise Unavailable("the connection broke", reason="NoAnswer", sent=True)

    return fault


@simulated
async def test_a_lower_limit_holds_from_the_write_on_also_below_present_use(server: Server) -> None:
    """Also where a process has an older state in its hands: what it books there is not taken."""
    server.put(LEDGERS, ledger(9))
    async with process(server) as service:
        assert [verdict.allowed for verdict in await ask(service, creating("a", 4))] == [True]
        held = asyncio.create_task(ask(service, creating("b", 4)))  # decided on the state of before
        await set_limits(server, LEDGER, cups(3), number=1)
        refused = [*await held, *await ask(service, creating("c", 1))]
        assert [one.limit.value() for verdict in refused if verdict.refusal for one in verdict.refusal.over] == [3, 3]
        assert unreached(server.ledger(), 1) == "nobody has counted since change 1: the status is about change 0"
        server.cup("a", 4)
        shrink = Charge(key=cup_key("a"), uid="uid-a", on_version=server.version, now=takes(2), old=takes(4))
        assert [verdict.allowed for verdict in await ask(service, shrink)] == [True]
        await set_limits(server, LEDGER, cups(5), number=2)
        assert [verdict.allowed for verdict in await ask(service, creating("d", 1))] == [True]
    assert server.ledger().status.change == 2, "whoever books says which limits it was decided on"
