"""A watch's bytes, on their way from the socket to lines: unpacked and split by hand; and bodies that may not be of any length.

Libraries' line readers give up at 64 KiB or so, and an object may be 1.5 MiB; and API servers send a compressed watch as one
gzip member per flush, at the end of which many readers stop. A server that is not believed (`read_limits.py`) is read no faster
and no further than it may be: whoever waits for it is the one connection, and nobody else.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from ullage.clock import Clock
from ullage.kube.errors import TooLarge
from ullage.kube.read_limits import ReadLimits, shown, text_weight

GZIP = 16 + zlib.MAX_WBITS
SLICE = 8192  # bounds what is copied per member where many small ones arrive together


class Gunzip:
    """Unpacks a gzip stream of any number of members, as far as it has come."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(GZIP)

    def feed(self, data: bytes) -> bytes:
        """What can be read by now. Raises `zlib.error` on what is no gzip."""
        parts = []
        for start in range(0, len(data), SLICE):
            rest = data[start : start + SLICE]
            while rest:
                parts.append(self._member.decompress(rest))
                if not self._member.eof:
                    break
                rest = self._member.unused_data
                self._member = zlib.decompressobj(GZIP)
        return b"".join(parts)


class Lines:
    """Cuts a stream into lines. Each byte is looked at once, however small the pieces are."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self.begun = 0  # bytes of a line that has not ended

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete by now, without their ends."""
        if b"\n" not in data:
            if data:
                self._begun.append(data)
                self.begun += len(data)
            return []
        first, *lines = data.split(b"\n")
        if self._begun:
            first = b"".join((*self._begun, first))
        self._begun = [lines[-1]] if lines[-1] else []
        self.begun = len(lines[-1])
        return [line for line in (first, *lines[:-1]) if line and not line.isspace()]

    @property
    def unfinished(self) -> bool:
        """Whether a line has begun that has not ended."""
        return bool(self._begun)


class Chunks(Protocol):
    """The body of an answer, as it comes."""

    async def readany(self) -> bytes: ...


class Intake:
    """What one server may send. All of its watches together have one rate, and all of its answers: for as long as that is
    exceeded, nothing is read of what it sends, and its end of the connection fills up. Whoever floods a watch does not have
    answers wait: webhooks that were taken out are put back meanwhile."""

    def __init__(self, limits: ReadLimits, *, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.limits = limits
        self._answers, self._events = limits.bucket(clock), limits.bucket(clock)
        self._clock = clock
        self._sleep = sleep
        self._late_since: float | None = None

    @property
    def late(self) -> float:
        """For how many seconds watches have brought more than their rate, without a pause."""
        return 0.0 if self._late_since is None else self._clock.monotonic() - self._late_since

    async def _pace(self, count: int) -> None:
        """Waits until so much more may have been read. Others get a turn in any case."""
        await self._sleep(self._answers.spend(count))

    async def body(self, what: str, chunks: Chunks, *, success: bool) -> bytes:
        """A whole answer. Of one that is no success, the beginning: that is enough to say what is wrong."""
        most = self.limits.answer if success else self.limits.error
        parts: list[bytes] = []
        size = 0
        while data := await chunks.readany():
            parts.append(data)
            size += len(data)
            if size > most:
                if not success:
                    return b"".join(parts)[:most]
                raise TooLarge(f"{what}: an answer has more than {shown(most)}", reason="AnswerTooLarge")
            await self._pace(len(data))
        found = b"".join(parts)
        await self._pace(self._weighed(what, found) - size)
        return found

    async def page(self, what: str, number: int, *, objects: int) -> None:
        """One more page of a list has come."""
        if number > self.limits.pages:
            raise TooLarge(f"{what}: the list has more than {self.limits.pages} pages", reason="TooManyPages")
        await self._pace(objects * self.limits.each)

    async def line(self, what: str, line: bytes) -> None:
        """An event of a watch, before it is decoded."""
        self.check_begun(what, len(line))
        pause = self._events.spend(self._weighed(what, line) + self.limits.each)
        if not pause:
            self._late_since = None
        elif self._late_since is None:
            self._late_since = self._clock.monotonic()
        await self._sleep(pause)

    def check_begun(self, what: str, size: int) -> None:
        """A line that has not ended yet, and may never."""
        if size > self.limits.line:
            raise TooLarge(f"{what}: an event has more than {shown(self.limits.line)}", reason="EventTooLarge")

    def _weighed(self, what: str, text: bytes) -> int:
        if (weight := text_weight(text)) > self.limits.decoded:
            most = shown(self.limits.decoded)
            raise TooLarge(
                f"{what}: {shown(len(text))} would take {shown(weight)} to decode, more than {most}", reason="AnswerTooLarge"
            )
        return weight
