"""Looks at trees that take long: nobody waits for long, nobody gets what was found before he asked, and all of them end."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from ullage.clock import SystemClock
from ullage.errors import NotNow
from ullage.snapshots.backends.base import InProgress
from ullage.snapshots.backends.hostpath.sizes import KEPT, RECENT, WalkKey, Walks
from ullage.snapshots.backends.hostpath.threads import Stop

MI = 1024**2
KEY = WalkKey("team", "/volumes/db")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


class Tree:
    """Something to look at that says when it lets go."""

    def __init__(self) -> None:
        self.looks = 0
        self.open = threading.Event()

    def look(self, stop: Stop) -> int:
        self.looks += 1
        stop.advance(3 * MI)
        while not self.open.wait(0.005):
            stop.check()
        return self.looks


async def found(walks: Walks, tree: Tree, key: WalkKey = KEY) -> int:
    async with asyncio.timeout(30):
        while True:
            try:
                return await walks.run(key, tree.look)
            except InProgress:
                continue


async def test_a_long_look_goes_on_and_says_how_far_it_is() -> None:
    walks, tree = Walks(1, patience=0.02, clock=SystemClock()), Tree()
    told = ""
    while told != "looking at what is in the volume: 3Mi so far":
        with pytest.raises(InProgress) as caught:
            await walks.run(KEY, tree.look)
        told = str(caught.value)
    tree.open.set()
    assert await found(walks, tree) == 1
    assert await found(walks, tree) == 2, "who asks again wants to know how it is now"


async def test_who_asks_while_somebody_else_looks_gets_a_look_of_his_own() -> None:
    walks, tree = Walks(2, patience=0.02, clock=SystemClock()), Tree()
    for key in (KEY, WalkKey("", KEY.volume)):
        with pytest.raises(InProgress):
            await walks.run(key, tree.look)
    tree.open.set()
    assert await found(walks, tree) + await found(walks, tree, WalkKey("", KEY.volume)) == 4, "there were two"


async def test_what_was_found_for_a_snapshot_will_do_for_nobody_in_particular() -> None:
    """A snapshot has its volume looked at, and is followed by a look in the background: all files once more, for nothing."""
    clock, tree = Clock(), Tree()
    walks, background = Walks(1, patience=0.02, clock=clock), WalkKey("", KEY.volume)
    tree.open.set()
    assert await found(walks, tree) == 1
    clock.seconds = RECENT - 1
    assert await found(walks, tree, WalkKey("", "/volumes/another")) == 2
    assert await found(walks, tree, background) == 1
    assert await found(walks, tree, background) == 3, "once: when its interval is over it wants to know how it is by then"
    assert await found(walks, tree, WalkKey("other", KEY.volume)) == 4, "who takes a snapshot wants to know how it is now"
    clock.seconds += RECENT + 1
    assert await found(walks, tree, background) == 5, "not for ever"
    assert not walks._found


async def test_what_took_long_will_do_for_longer() -> None:
    clock, tree = Clock(), Tree()
    walks = Walks(1, patience=0.02, clock=clock)
    with pytest.raises(InProgress):
        await walks.run(KEY, tree.look)
    clock.seconds = 300
    tree.open.set()
    assert await found(walks, tree) == 1
    clock.seconds += 20 * 300 - 1
    assert await found(walks, tree, WalkKey("", KEY.volume)) == 1
    clock.seconds += 2
    assert await found(walks, tree, WalkKey("", KEY.volume)) == 2


async def test_what_was_found_long_ago_is_looked_at_anew() -> None:
    clock, tree = Clock(), Tree()
    walks = Walks(1, patience=0.02, clock=clock)
    with pytest.raises(InProgress):
        await walks.run(KEY, tree.look)
    tree.open.set()
    await asyncio.gather(*(walk.task for walk in walks._walks.values()))
    clock.seconds = KEPT + 1
    assert await found(walks, tree) == 2


async def test_a_look_without_an_end_is_ended() -> None:
    walks, tree = Walks(1, patience=5, clock=SystemClock(), longest=0.05), Tree()
    with pytest.raises(NotNow) as caught:
        await walks.run(KEY, tree.look)
    assert str(caught.value) == "volume /volumes/db cannot be measured: after 0.05 s only 3Mi of it were looked at"
    tree.open.set()
    assert await found(walks, tree) == 2, "and the thread is free again"


async def test_one_namespace_does_not_keep_the_others_waiting() -> None:
    walks, trees = Walks(1, patience=0.01, clock=SystemClock()), [Tree() for _ in range(5)]
    order: list[str] = []

    async def ask(owner: str, number: int) -> None:
        await found(walks, trees[number], WalkKey(owner, f"/volumes/{number}"))
        order.append(owner)

    async with asyncio.TaskGroup() as group:
        for number, owner in enumerate(("greedy", "greedy", "greedy", "greedy", "modest")):
            group.create_task(ask(owner, number))
            await asyncio.sleep(0)
        for tree in trees:
            tree.open.set()
    assert order.index("modest") <= 2


async def test_closing_ends_all_of_them() -> None:
    walks, tree = Walks(1, patience=0.01, clock=SystemClock()), Tree()
    with pytest.raises(InProgress):
        await walks.run(KEY, tree.look)
    await walks.close()
    assert not walks._walks
