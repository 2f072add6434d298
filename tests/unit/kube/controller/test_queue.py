"""Workers that wait for keys. What the queue does with keys and time is in `tests/property/test_queue.py`."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from ullage.clock import FakeClock
from ullage.kube.backoff import Backoff
from ullage.kube.controller.queue import Closed, Queue

SOON = 0.02


async def test_a_waiting_worker_gets_a_key_as_soon_as_it_is_added() -> None:
    queue: Queue[str] = Queue()
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a")
    assert await taker == "a"


async def test_a_delayed_key_wakes_a_worker_that_waits() -> None:
    queue: Queue[str] = Queue()
    taker = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("later", after=3600.0)
    queue.add("soon", after=SOON)
    assert await asyncio.wait_for(taker, 10) == "soon"
    assert queue.waiting == 1


async def test_a_key_that_was_delayed_before_anyone_waited_wakes_a_worker() -> None:
    queue: Queue[str] = Queue()
    queue.add("a", after=SOON)
    assert await asyncio.wait_for(queue.take(), 10) == "a"


def test_keys_that_are_due_at_once_wake_workers_on_the_loop_that_the_product_runs_on() -> None:
    async def several() -> list[str]:
        queue: Queue[str] = Queue()
        takers = [asyncio.create_task(queue.take()) for _ in range(2)]
        await asyncio.sleep(0)
        queue.add("a", after=1e-5)  # uvloop makes no timer of so little, and what it gives instead cannot say when it is due
        queue.add("b", after=1e-5)
        return sorted(await asyncio.wait_for(asyncio.gather(*takers), 10))

    assert uvloop.run(several()) == ["a", "b"]


async def test_each_of_several_workers_gets_a_key_of_its_own() -> None:
    queue: Queue[int] = Queue()
    takers = [asyncio.create_task(queue.take()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in range(3):
        queue.add(key)
    assert sorted(await asyncio.gather(*takers)) == [0, 1, 2]


async def test_a_worker_that_goes_when_it_is_called_passes_the_call_on() -> None:
    queue: Queue[str] = Queue()
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a")  # calls the first
    first.cancel()
    assert await asyncio.wait_for(second, 10) == "a"
    assert first.cancelled()


async def test_closing_sends_workers_home_and_drops_what_is_ready() -> None:
    queue: Queue[str] = Queue()
    takers = [asyncio.create_task(queue.take()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.close()
    for taker in takers:
        with pytest.raises(Closed):
            await taker
    queue.add("a")
    assert len(queue) == 0
    with pytest.raises(Closed):
        await queue.take()


async def test_drained_waits_for_what_is_ready_and_what_runs_but_not_for_later() -> None:
    queue: Queue[str] = Queue(clock=FakeClock())
    queue.add("a")
    queue.add("later", after=60.0)
    drained = asyncio.create_task(queue.drained())
    await asyncio.sleep(0)
    assert not drained.done(), "a is ready"
    key = await queue.take()
    queue.add(key)
    await asyncio.sleep(0)
    assert not drained.done(), "a runs"
    queue.done(key)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not drained.done(), "a was added while it ran"
    queue.done(await queue.take())
    await asyncio.wait_for(drained, 10)


async def test_a_closed_queue_is_drained_when_what_runs_is_done() -> None:
    queue: Queue[str] = Queue()
    queue.add("a")
    queue.add("b")
    key = await queue.take()
    queue.close()
    drained = asyncio.create_task(queue.drained())
    await asyncio.sleep(0)
    assert not drained.done()
    queue.failed(key)
    await asyncio.wait_for(drained, 10)
    assert queue.waiting == 0, "nothing is put off in a queue that ends"


def test_keys_come_in_the_order_in_which_they_became_ready() -> None:
    clock = FakeClock()
    queue: Queue[str] = Queue(clock=clock)
    queue.add("second", after=2.0)
    queue.add("first", after=1.0)
    queue.add("now")
    clock.advance(5.0)
    queue.add("last")
    assert [queue.pop() for _ in range(5)] == ["now", "first", "second", "last", None]


def test_a_server_that_asks_for_more_patience_gets_it() -> None:
    queue: Queue[str] = Queue(clock=FakeClock(), backoff=Backoff(first=1.0, cap=8.0))
    queue.add("a")
    assert queue.pop() == "a"
    assert queue.failed("a", at_least=30.0) == 30.0
    assert queue.due_in() == 30.0


def test_a_thousand_failures_wait_for_the_cap() -> None:
    assert Backoff(first=0.01, cap=60.0).delay(1000) == 60.0


@pytest.mark.parametrize(("first", "cap"), [(0.0, 1.0), (2.0, 1.0), (-1.0, 1.0)])
def test_a_backoff_that_is_none_is_refused(first: float, cap: float) -> None:
    with pytest.raises(ValueError, match="is none"):
        Backoff(first=first, cap=cap)


def test_a_key_that_is_moved_to_and_fro_leaves_no_trail() -> None:
    queue: Queue[str] = Queue(clock=FakeClock())
    for step in range(10_000):
        queue.add("a", after=20_000.0 - step)
    assert queue.waiting == 1
    assert len(queue._heap) < 100
