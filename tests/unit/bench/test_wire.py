"""The lean client of the benchmarks."""

from __future__ import annotations

import asyncio

import pytest

from bench.apiserver.wire import Connection


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


async def lines(sent: bytes) -> list[bytes]:
    reader = asyncio.StreamReader()
    reader.feed_data(sent)
    reader.feed_eof()
    return [line async for line in Connection.lines(reader)]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"one\n", b"two\n"], id="each line in a chunk"),
        pytest.param([b"one\ntwo\n"], id="both lines in one chunk"),
        pytest.param([b"on", b"e\ntw", b"o\n"], id="a line in pieces"),
        pytest.param([b"one", b"\n", b"two\n"], id="the end of a line in a chunk of its own"),
    ],
)
async def test_a_watch_has_the_same_lines_however_they_are_cut_into_chunks(pieces: list[bytes]) -> None:
    assert await lines(chunked(*pieces)) == [b"one", b"two"]


async def test_a_watch_that_is_cut_off_yields_whole_lines_only() -> None:
    assert await lines(b"4\r\none\n\r\n") == [b"one"]
