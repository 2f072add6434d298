"""Clients that take nothing: they wait while there is room, and end when others need it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from ullage.standalone.apiserver.limits.deliveries import Deliveries, in_time
from ullage.standalone.apiserver.limits.pieces import PIECE


async def stuck(all_of_them: Deliveries, size: int, taken: list[bytes]) -> None:
    """A client that takes the first piece, and nothing more."""
    async for piece in all_of_them.send([b"x" * size], size):
        taken.append(piece)
        await asyncio.Event().wait()


class TestRoom:
    async def test_the_one_that_took_nothing_for_longest_ends(self) -> None:
        all_of_them = Deliveries(most=300, grace=0.0)
        taken: list[bytes] = []
        waiting = []
        for _ in range(3):
            waiting.append(asyncio.create_task(stuck(all_of_them, 100, taken)))
            await asyncio.sleep(0.01)
        assert (all_of_them.held, len(taken)) == (300, 3)
        seen = [piece async for piece in all_of_them.send([b"y" * 150], 150)]
        assert seen == [b"y" * 150]
        await asyncio.wait(waiting[:2], timeout=5)
        assert [task.cancelled() for task in waiting] == [True, True, False]
        assert all_of_them.held == 100
        waiting[2].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def test_nobody_ends_while_there_is_room(self) -> None:
        all_of_them = Deliveries(most=300, grace=0.0)
        waiting = asyncio.create_task(stuck(all_of_them, 100, []))
        await asyncio.sleep(0)
        for _ in range(10):
            async for _piece in all_of_them.send([b"y" * 200], 200):
                pass
        assert not waiting.done()
        assert all_of_them.held == 100
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    async def test_others_wait_for_a_client_that_is_only_a_little_slow(self) -> None:
        all_of_them = Deliveries(most=100, grace=0.05)
        going = asyncio.Event()

        async def slow() -> list[bytes]:
            taken = []
            async for piece in all_of_them.send([b"x" * PIECE, b"x" * PIECE], 100):
                taken.append(piece)
                await asyncio.sleep(0.01)
                going.set()
            return taken

        first = asyncio.create_task(slow())
        await going.wait()
        assert [piece async for piece in all_of_them.send([b"y"], 10)] == [b"y"]
        assert len(await first) == 2

    async def test_one_that_is_larger_than_all_the_room_goes_alone(self) -> None:
        all_of_them = Deliveries(most=10, grace=0.0)
        assert [piece async for piece in all_of_them.send([b"y" * 100], 100)] == [b"y" * 100]
        assert all_of_them.held == 0


async def test_a_list_that_nobody_takes_is_hung_up_on() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for number in range(3):
            yield b"%d" % number

    taken = []

    async def send() -> None:
        async for chunk in in_time(chunks(), seconds=0.05):
            taken.append(chunk)
            if len(taken) == 2:
                await asyncio.Event().wait()

    sending = asyncio.create_task(send())
    await asyncio.wait((sending,), timeout=5)
    assert (sending.cancelled(), taken) == (True, [b"0", b"1"])
