"""How much of all bodies is held at once, by whom, and where large ones are worked out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import MutableMapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ullage.standalone.apiserver.codec.json import MAX_BODY
from ullage.standalone.apiserver.http import intake
from ullage.standalone.apiserver.http.intake import Disconnected, Intake
from ullage.standalone.apiserver.limits.semaphore import FairSemaphore
from ullage.standalone.apiserver.limits.threads import INLINE, worked_out
from ullage.standalone.apiserver.status import ApiError


class Sender:
    """A client that sends these pieces, and then nothing more; None hangs up."""

    def __init__(self, *pieces: bytes | None, more: bool = False) -> None:
        self.pieces = list(pieces)
        self.more = more

    async def receive(self) -> MutableMapping[str, Any]:
        if not self.pieces:
            await asyncio.Event().wait()
        piece = self.pieces.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": self.more or bool(self.pieces)}


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


@pytest.mark.parametrize(
    ("headers", "sender", "code"),
    [
        pytest.param({"content-length": "3"}, Sender(b"abc"), None, id="as announced"),
        pytest.param({"transfer-encoding": "chunked"}, Sender(b"a", b"b", b"c"), None, id="in pieces"),
        pytest.param({"content-length": str(MAX_BODY + 1)}, Sender(), 413, id="too long, as it says itself"),
        pytest.param({"transfer-encoding": "chunked"}, Sender(b"x" * (MAX_BODY + 1)), 413, id="too long, as it turns out"),
        pytest.param({"content-length": "3"}, Sender(b"a", more=True), 408, id="never complete"),
    ],
)
async def test_a_body_is_read(
    headers: dict[str, str], sender: Sender, code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "SILENCE_SECONDS", 0.05)
    if code is None:
        async with Intake().read(headers, sender.receive, "me") as body:
            assert body == b"abc"
        return
    with pytest.raises(ApiError) as caught:
        async with Intake().read(headers, sender.receive, "me"):
            pass
    assert caught.value.code == code


async def test_a_client_that_hangs_up() -> None:
    with pytest.raises(Disconnected):
        async with Intake().read({"content-length": "3"}, Sender(b"a", None).receive, "me"):
            pass


async def test_a_body_that_finds_no_room_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "ADMIT_SECONDS", 0.05)
    shared = Intake(small=10, large=10)
    async with AsyncExitStack() as held:
        for owner in ("a", "b"):
            await held.enter_async_context(shared.read({"content-length": "5"}, Sender(b"12345").receive, owner))
        with pytest.raises(ApiError) as caught:
            async with shared.read({"content-length": "5"}, Sender(b"12345").receive, "c"):
                pass
        assert (caught.value.code, caught.value.reason) == (429, "TooManyRequests")
    async with shared.read({"content-length": "5"}, Sender(b"12345").receive, "c") as body:
        assert body == b"12345"


@pytest.mark.parametrize(("size", "beside"), [(0, False), (INLINE, False), (INLINE + 1, True)])
async def test_only_what_is_large_is_worked_out_beside_the_loop(size: int, beside: bool) -> None:
    assert (await worked_out(size, threading.get_ident) != threading.get_ident()) is beside


async def test_what_is_worked_out_beside_the_loop_may_fail() -> None:
    with pytest.raises(ZeroDivisionError):
        await worked_out(INLINE + 1, lambda: 1 // 0)
