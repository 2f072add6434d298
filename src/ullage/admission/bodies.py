"""How bodies of reviews are read: whoever reaches the port can send some, so they have a size, a time, and a sum."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

LARGEST_BODY: Final = 16 * 1024 * 1024  # two objects of 3 MiB, which may grow in encoding, and room
MOST_AT_ONCE: Final = 64 * 1024 * 1024  # bytes of all bodies that are being read or answered
READ_SECONDS: Final = 10.0  # an API server sends a review at once, and waits no longer than 30 s for all of it


class BodyRefused(Exception):
    """A body that is not read to its end. `code` is HTTP's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class BodyReader:
    """All bodies of one server. `held` counts their bytes."""

    def __init__(self) -> None:
        self.held = 0

    @contextlib.asynccontextmanager
    async def body(self, receive: Receive, *, declared: int) -> AsyncIterator[bytes]:
        """The body, which counts until the block ends. Raises Refused."""
        self._check(declared)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(READ_SECONDS):
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
            raise BodyRefused(408, f"a review is sent within {READ_SECONDS:.0f} s") from None
        except BaseException:
            self.held -= size
            raise
        try:
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self.held -= size

    def _check(self, size: int) -> None:
        if size > LARGEST_BODY:
            raise BodyRefused(413, f"a review has at most {LARGEST_BODY} bytes")
        if self.held > MOST_AT_ONCE:
            raise BodyRefused(503, "too many reviews at once; try again")


def declared_length(headers: list[tuple[bytes, bytes]]) -> int:
    """What the head of a request says of its body; 0 where it says nothing that can be believed."""
    found = next((value for name, value in headers if name == b"content-length"), b"0")
    return int(found) if found.isdigit() and len(found) < 20 else 0
