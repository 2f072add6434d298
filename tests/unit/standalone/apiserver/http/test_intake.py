"""How bodies are read: how large, how fast, and how much of all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ullage.standalone.apiserver.codec.json import MAX_BODY
from ullage.standalone.apiserver.http import intake
from ullage.standalone.apiserver.http.intake import Disconnected, Intake
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
