"""Since when an API server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.simulated import BY_TEAM, CUPS, Server
from ullage.kube.cache.cache import Cache
from ullage.ledger.service.expiry import EVERY, SILENT, Pulse
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.views import KindView


def pulsing(test: Callable[[Server, Pulse], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        server, clock = Server(), VirtualClock()
        cache = Cache(server, CUPS, clock=clock, jitter=lambda: 0.5)
        reading = asyncio.create_task(cache.run())
        await cache.synced.wait()
        pulse = Pulse(Sources(KindView(cache, BY_TEAM, client=server, clock=clock)), call=5.0, clock=clock)
        await test(server, pulse)
        await pulse.close()
        reading.cancel()

    def wrapped() -> None:
        in_virtual_time(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def now() -> float:
    return VirtualClock().monotonic()


@pulsing
async def test_a_server_that_answers_has_answered_since_it_was_first_asked(server: Server, pulse: Pulse) -> None:
    began = now()
    pulse.keep("", 60)
    await asyncio.sleep(50)
    assert pulse.since("") == pytest.approx(began)


@pulsing
async def test_a_short_silence_is_none(server: Server, pulse: Pulse) -> None:
    began = now()
    pulse.keep("", 60)
    await asyncio.sleep(10)
    server.cut_off()
    await asyncio.sleep(SILENT - 2 * EVERY)
    server.come_back()
    await asyncio.sleep(10)
    assert pulse.since("") == pytest.approx(began)


@pulsing
async def test_after_a_silence_it_answers_since_it_came_back(server: Server, pulse: Pulse) -> None:
    pulse.keep("", 60)
    await asyncio.sleep(10)
    server.cut_off()
    await asyncio.sleep(SILENT + 2)
    assert pulse.since("") == now(), "while it is silent it does not answer"
    pulse.keep("", 60)
    assert pulse.since("") == now(), "to be asked is no answer"
    server.come_back()
    back = now()
    await asyncio.sleep(10)
    assert back <= pulse.since("") <= back + EVERY + 0.1


@pulsing
async def test_an_answer_that_takes_long_is_a_silence(server: Server, pulse: Pulse) -> None:
    """The server answered at some moment between, and may have stood still before it."""
    pulse.keep("", 60)
    await asyncio.sleep(10)
    server.latency = lambda: 4.9
    await asyncio.sleep(6)
    server.latency = lambda: 0.002
    await asyncio.sleep(2)
    assert pulse.since("") > now() - 3


@pulsing
async def test_time_in_which_it_was_not_asked_proves_nothing(server: Server, pulse: Pulse) -> None:
    pulse.keep("", 5)
    await asyncio.sleep(60)
    assert pulse.since("") == now()
    pulse.keep("", 60)
    again = now()
    await asyncio.sleep(10)
    assert pulse.since("") >= again


@pulsing
async def test_a_cluster_that_cannot_be_asked_is_silent(server: Server, pulse: Pulse) -> None:
    pulse.keep("far", 60)
    await asyncio.sleep(10)
    assert pulse.since("far") == now()
