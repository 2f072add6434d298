"""Memory that is shared: who waits, in which order, and who does not have to."""

from __future__ import annotations

import asyncio

from ullage.standalone.apiserver.limits.semaphore import FairSemaphore


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Holders:
    """Who waits for room and who has it, in order."""

    def __init__(self, room: FairSemaphore) -> None:
        self.room = room
        self.inside: list[str] = []
        self.leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, amount: int, owner: str) -> None:
        self.leave[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._stay(name, amount, owner))
        await settle()

    async def _stay(self, name: str, amount: int, owner: str) -> None:
        async with self.room.hold(amount, owner):
            self.inside.append(name)
            await self.leave[name].wait()
            self.inside.remove(name)

    async def go(self, name: str) -> None:
        self.leave[name].set()
        await settle()

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def test_whoever_does_not_fit_waits_and_keeps_their_turn() -> None:
    holders = Holders(FairSemaphore(10, share=10))
    await holders.come("a", 8, "one")
    await holders.come("b", 5, "two")
    await holders.come("c", 2, "three")
    assert holders.inside == ["a"], "a small one that comes later does not overtake"
    await holders.go("a")
    assert holders.inside == ["b", "c"]
    await holders.end()


async def test_nobody_has_more_than_their_share_and_others_do_not_wait_for_them() -> None:
    holders = Holders(FairSemaphore(10, share=5))
    await holders.come("a", 4, "one")
    await holders.come("b", 4, "one")
    await holders.come("c", 4, "two")
    assert holders.inside == ["a", "c"]
    await holders.go("a")
    assert holders.inside == ["c", "b"]
    await holders.end()


async def test_whoever_stops_waiting_leaves_no_hole() -> None:
    holders = Holders(FairSemaphore(10, share=10))
    await holders.come("a", 8, "one")
    await holders.come("b", 9, "two")
    await holders.come("c", 2, "three")
    holders.tasks["b"].cancel()
    await settle()
    assert holders.inside == ["a", "c"]
    await holders.end()
    async with asyncio.timeout(1), holders.room.hold(10, "one"):
        pass
