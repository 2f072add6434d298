"""How bodies are read: whoever reaches the port can send some, so they have a size, a time, and a sum."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyBounds:
    """`what` is the word for one body in refusals, in the singular and in the plural."""

    what: tuple[str, str]
    largest: int  # bytes
    most_at_once: int  # bytes of all bodies that are being read or answered
    seconds: float  # from the first byte that is asked for to the last


class BodyRefused(Exception):
    """A body that is not read to its end. `code` is HTTP's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class BodyReader:
    """All bodies of one server. `held` counts their bytes."""

    def __init__(self, bounds: BodyBounds) -> None:
        self.bounds = bounds
        self.held = 0

    @contextlib.asynccontextmanager
    async def body(self, receive: Receive, *, declared: int) -> AsyncIterator[bytes]:
        """The body, which counts until the block ends. Raises Refused."""
        self._check(declared)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.bounds.seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise BodyRefused(400, "the client is gone")
                    part: bytes = message.get("body", b"")
                    more = bool(message.get("more_body"))
                    parts.append(part)
                    size += len(part)
                    self.held += len(part)
                    self._check(size)
        except TimeoutError:
            self.held -= size
            raise BodyRefused(408, f"{_a(self.bounds.what[0])} is sent within {self.bounds.seconds:.0f} s") from None
        except BaseException:
            self.held -= size
            raise
        try:
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self.held -= size

    def _check(self, size: int) -> None:
        one, many = self.bounds.what
        if size > self.bounds.largest:
            raise BodyRefused(413, f"{_a(one)} has at most {self.bounds.largest} bytes")
        if self.held > self.bounds.most_at_once:
            raise BodyRefused(503, f"too many {many} at once; try again")


def declared_length(headers: list[tuple[bytes, bytes]]) -> int:
    """What the head of a request says of its body; 0 where it says nothing that can be believed."""
    found = next((value for name, value in headers if name == b"content-length"), b"0")
    return int(found) if found.isdigit() and len(found) < 20 else 0


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
