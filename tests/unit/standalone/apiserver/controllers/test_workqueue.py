"""The controllers' queue: each key once, never twice at the same time, again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import eventually
from ullage.standalone.apiserver.controllers import workqueue
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue


@asynccontextmanager
async def working(queue: WorkQueue[str]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(queue.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_key_that_is_added_often_is_worked_on_once() -> None:
    done: list[str] = []

    async def process(key: str) -> None:
        done.append(key)

    queue = WorkQueue(process, name="test")
    for key in "abab":
        queue.add(key)
    async with working(queue):
        await eventually(lambda: queue.idle)
    assert done == ["a", "b"]


async def test_a_key_that_comes_while_it_is_worked_on_is_worked_on_again_and_not_at_once() -> None:
    release, running, most, done = asyncio.Event(), 0, 0, 0

    async def process(key: str) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        done += 1

    queue = WorkQueue(process, name="test", workers=4)
    queue.add("a")
    async with working(queue):
        await eventually(lambda: running == 1)
        queue.add("a")
        queue.add("a")
        for _ in range(10):
            await asyncio.sleep(0)
        assert running == 1
        assert not queue.idle
        release.set()
        await eventually(lambda: queue.idle)
    assert (most, done) == (1, 2)


async def test_several_workers_work_side_by_side() -> None:
    release, seen = asyncio.Event(), set()

    async def process(key: str) -> None:
        seen.add(key)
        await release.wait()

    queue = WorkQueue(process, name="test", workers=3)
    for key in "abcd":
        queue.add(key)
    async with working(queue):
        await eventually(lambda: len(seen) == 3)
        release.set()
        await eventually(lambda: seen == set("abcd") and queue.idle)


async def test_a_failed_key_is_tried_again_until_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "FIRST_RETRY", 0.0)
    tries = 0

    async def process(key: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 6:
            raise RuntimeError("not yet")

    queue = WorkQueue(process, name="test")
    queue.add("a")
    async with working(queue):
        await eventually(lambda: queue.idle)
    assert tries == 6


async def test_delays_double_up_to_a_limit_and_never_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that fails all night must not end the queue: two to the power of 1024 is no float."""
    delays: list[float] = []
    loop = asyncio.get_running_loop()

    def at_once(delay: float, call: Callable[..., object], *args: Any) -> asyncio.Handle:
        if call != queue.add:  # a timer of the test's own
            return loop.call_at(loop.time() + delay, call, *args)
        delays.append(delay)
        return loop.call_soon(call, *args)

    async def process(key: str) -> None:
        if len(delays) < 1500:
            raise RuntimeError("no")

    queue = WorkQueue(process, name="test")
    monkeypatch.setattr(loop, "call_later", at_once)
    monkeypatch.setattr(workqueue.logger, "disabled", True)
    queue.add("a")
    async with working(queue) as task:
        await eventually(lambda: task.done() or queue.idle)
    assert delays[:4] == [0.05, 0.1, 0.2, 0.4]
    assert (max(delays), len(delays)) == (workqueue.LAST_RETRY, 1500)


async def test_a_key_for_later_is_worked_on_once_and_holds_up_nobody() -> None:
    done: list[str] = []

    async def process(key: str) -> None:
        done.append(key)

    queue = WorkQueue(process, name="test")
    async with working(queue):
        queue.add_later("a", 0.1)
        queue.add_later("a", 0.0)
        queue.add("b")
        await eventually(lambda: done == ["b"])
        assert not queue.idle, "one is still to come"
        await eventually(lambda: queue.idle)
    assert done == ["b", "a"]
