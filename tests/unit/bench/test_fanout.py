"""The watchers of the fan-out."""

from __future__ import annotations

import asyncio

import pytest

from bench.apiserver.fanout import _watch
from bench.apiserver.wire import Connection, Target

EVENTS = b'{"object":{"data":{"stamp":"0.5"}}}\n{"object":{"metadata":{"name":"end"}}}\n'


class Answered(Connection):
    """A connection on which one answer came already, in chunks."""

    def __init__(self, *chunks: bytes) -> None:
        super().__init__(Target("127.0.0.1", 1, "", None))
        self._chunks_sent = chunks

    async def send(
        self, method: str, path: str, body: bytes = b"", *, content_type: str = "application/json"
    ) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        reader.feed_data(b"Transfer-Encoding: chunked\r\n\r\n")
        for chunk in (*self._chunks_sent, b""):
            reader.feed_data(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        reader.feed_eof()
        return reader


@pytest.mark.parametrize("cut", range(len(EVENTS)))
async def test_an_event_counts_once_wherever_its_line_is_cut(cut: int) -> None:
    chunks = [piece for piece in (EVENTS[:cut], EVENTS[cut:]) if piece]
    assert len(await _watch(Answered(*chunks), "/", asyncio.Semaphore(0))) == 1
