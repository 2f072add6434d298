"""Answers of one write: spread, in order, none lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.service.test_service import ask, process, simulated
from tests.unit.ledger.simulated import LEDGER, Server, creating, ledger
from ullage.ledger.api import LEDGERS
from ullage.ledger.service.batcher import Answers
from ullage.ledger.service.decisions import ALLOWED, Said

PAUSE = 0.010


async def asked_at(futures: Sequence[asyncio.Future[Said]]) -> list[float]:
    """When each is answered, in milliseconds from now."""
    began = asyncio.get_running_loop().time()

    async def one(future: asyncio.Future[Said]) -> float:
        await future
        return round((asyncio.get_running_loop().time() - began) * 1000, 3)

    return await asyncio.gather(*(one(future) for future in futures))


def futures(number: int) -> list[asyncio.Future[Said]]:
    return [asyncio.get_running_loop().create_future() for _ in range(number)]


@pytest.mark.parametrize(
    ("number", "over", "at_once", "last"),
    [
        pytest.param(1, PAUSE, 1, 0.0, id="one is answered at once"),
        pytest.param(2, PAUSE, 1, 5.0, id="two: the second in the middle of the pause"),
        pytest.param(10, PAUSE, 1, 9.0, id="ten: one each millisecond"),
        pytest.param(64, PAUSE, 7, 9.0, id="sixty-four: seven each millisecond"),
        pytest.param(64, 0.0, 64, 0.0, id="without a pause all at once"),
    ],
)
def test_answers_are_spread_over_the_pause(number: int, over: float, at_once: int, last: float) -> None:
    async def run() -> None:
        answers, asked = Answers(), futures(number)
        answers.give([(future, ALLOWED) for future in asked], over=over)
        moments = await asked_at(asked)
        assert moments == sorted(moments)
        assert moments[-1] == last
        assert max(moments.count(moment) for moment in moments) == at_once

    in_virtual_time(run())


def test_those_of_before_are_given_first_and_those_who_gave_up_need_none() -> None:
    async def run() -> None:
        answers, first, second = Answers(), futures(20), futures(2)
        answers.give([(future, ALLOWED) for future in first], over=PAUSE)
        first[-1].cancel()
        answers.give([(future, ALLOWED) for future in second], over=PAUSE)
        assert [future.done() for future in (*first, *second)] == [True] * 21 + [False]
        answers.give_now()
        assert second[1].done()

    in_virtual_time(run())


@simulated
async def test_those_who_asked_together_are_answered_before_the_next_write_begins(server: Server) -> None:
    server.put(LEDGERS, ledger(None))
    async with process(server) as service:
        await ask(service, creating("warm"))
        await asyncio.sleep(1.0)
        loop, calls, moments = asyncio.get_running_loop(), list[str](), list[float]()

        async def one(number: int) -> None:
            await service.decide(LEDGER, creating(f"cup-{number}"))
            moments.append(loop.time())
            calls.append(f"{server.calls.count('PUT ledgers')} writes")

        await asyncio.gather(*(one(number) for number in range(40)))
        assert set(calls) == {"2 writes"}, "the warm one, and that of all forty"
        assert 0.008 <= moments[-1] - moments[0] <= PAUSE


@simulated
async def test_a_process_that_stops_gives_the_answers_that_are_on_their_way(server: Server) -> None:
    server.put(LEDGERS, ledger(None))
    async with process(server) as service:
        asked = [asyncio.create_task(service.decide(LEDGER, creating(f"cup-{number}"))) for number in range(40)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert not all(one.done() for one in asked)
    verdicts = await asyncio.gather(*asked)
    assert all(one.allowed for one in verdicts), "they are booked: to tell them to ask again would book nothing more"
